"""The search in maintenance documents: what it finds, in which order, and how it fails."""

from __future__ import annotations

import json
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import DependencyError, ServiceError
from labkit.services import Fault, InProcessAdapter, MaintenanceDocuments, SearchReply
from labkit.services.mocks.documents import DOCUMENTS, MOST_HITS, search
from labkit.services.mocks.parts import CATALOGUE


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("How do I replace the seal kit?", "MD-01"),
        ("pump motor hums", "MD-02"),
        ("When should spindle bearings be greased? grease bearings", "MD-03"),
        ("ROTARY ENCODER zero", "MD-06"),
        ("GB-8801", "MD-07"),
        ("routing of servo cables", "MD-08"),
        ("lock and tag", "MD-09"),
    ],
)
def test_the_best_passage_is_that_which_shares_most_words(clock, query, document):
    """Capitals, plurals and small words do not matter; a part's number is a word."""
    reply = clock.run(MaintenanceDocuments(clock).call(query))
    assert (reply.status, reply.query, reply.found) == ("ok", query, True)
    assert reply.hits[0].document == document
    assert reply.hits[0].passage in DOCUMENTS[document][1]


def test_every_part_of_the_catalogue_has_its_document():
    """Asked for by its number or by its name, each part is found in the document about it."""
    for part, (name, _) in CATALOGUE.items():
        assert part in search(part).hits[0].title
        assert part in search(f"maintenance of the {name}").hits[0].title


def test_nothing_found_is_an_answer(world):
    """A search without a hit returns a reply that says so; it is no failure and no rejection."""

    async def main(clock):
        service = MaintenanceDocuments(clock, latency=0)
        return service, await service.call("quantum chromodynamics")

    service, reply = world.run(main)
    assert (reply.status, reply.hits, reply.found) == ("nothing found", (), False)
    assert service.outcomes == {"answered": 1}


def test_a_stream_gives_one_hit_a_chunk(world):
    """Each chunk is a reply with one hit, in the order of the single call's; nothing found is one chunk."""

    async def main(clock):
        service = MaintenanceDocuments(clock, latency=0)
        whole = await service.call("replace the filter element")
        async with aclosing(service.stream("replace the filter element")) as chunks:
            streamed = [chunk async for chunk in chunks]
        async with aclosing(service.stream("zzz")) as chunks:
            nothing = [chunk async for chunk in chunks]
        return whole, streamed, nothing

    whole, streamed, nothing = world.run(main)
    assert len(streamed) > 1
    assert tuple(hit for chunk in streamed for hit in chunk.hits) == whole.hits
    assert all(len(chunk.hits) == 1 for chunk in streamed)
    assert nothing == [SearchReply("nothing found", "zzz")]


def test_it_fails_as_every_service_does(clock):
    """The documents have the same faults, and the adapter classifies them alike."""
    service = MaintenanceDocuments(clock, plan="error_shaped_string", latency=0)
    assert clock.run(service.call("grease")).startswith("Service error: maintenance_documents")
    with pytest.raises(DependencyError, match="a text"):
        clock.run(InProcessAdapter(service).call("grease"))
    service.set_fault("business_rejection")
    assert clock.run(InProcessAdapter(service).call("grease")).status == "nothing found"
    service.set_fault(Fault("error"))
    with pytest.raises(DependencyError, match="maintenance_documents failed"):
        clock.run(service.call("grease"))


@pytest.mark.parametrize("query", ["", None, 5, ["grease"]])
def test_what_is_no_query_is_refused_and_not_counted(clock, query):
    """A query that is not a text is the caller's mistake: one sentence, and no attempt is counted."""
    service = MaintenanceDocuments(clock)
    with pytest.raises(ServiceError, match="a query is a text"):
        clock.run(service.call(query))
    assert service.attempts == 0


WORDS = ["grease", "bearing", "oil", "seals", "pump", "the", "how", "EN-5096", "zzz", "7.5 kW"]


@given(st.lists(st.sampled_from(WORDS), min_size=1))
def test_ranking_is_sound_whatever_is_asked(words):
    """Few hits, the best first, no passage twice, scores above 0 and at most 1; the same query ranks the same."""
    query = " ".join(words)
    reply = search.__wrapped__(query)
    assert reply == search(query)
    scores = [hit.score for hit in reply.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len({hit.passage for hit in reply.hits}) == len(reply.hits) <= MOST_HITS
    assert reply.status == ("ok" if reply.hits else "nothing found")


def test_replies_are_values():
    """A reply is immutable, reads as text and goes into JSON."""
    reply = search("grease")
    with pytest.raises(AttributeError):
        reply.status = "ok"  # type: ignore[misc]
    assert json.loads(json.dumps(reply.to_dict()))["hits"][0]["document"] == reply.hits[0].document
    assert reply.hits[0].title in str(reply)
    assert str(search("zzz")) == "'zzz': nothing found"
