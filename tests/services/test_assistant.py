"""The assistant: which tools it asks, what it says, and that no number gets into an answer but from a live reply."""

from __future__ import annotations

import json
import re
from asyncio import CancelledError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import CircuitBreakerOpenError, DependencyError, ServiceError
from labkit.middleware import Stack, Unavailable
from labkit.services import (
    Answer,
    Claim,
    Fault,
    FaultPlan,
    MaintenanceDocuments,
    PartsAvailability,
    ResearchAssistant,
    StockReply,
    Window,
    make_adapter,
)
from labkit.timing import VirtualClock

BOTH = "How many HX-2040 are in stock, and how do I replace the seal kit?"


class Tools:
    """Both tools on a clock, and an assistant whose calls of them are written down."""

    def __init__(self, clock, plan=None, documents=None, **settings):
        self.parts = PartsAvailability(clock, plan=plan, latency=1)
        self.documents = MaintenanceDocuments(clock, plan=documents, latency=1)
        self.asked = []
        self.assistant = ResearchAssistant(clock, **settings)
        self.assistant.connect(self.call)

    def call(self, function, argument):
        """Call a tool by its function's name."""
        self.asked.append((function, argument))
        return {"parts_availability": self.parts, "maintenance_documents": self.documents}[function].call(argument)


def counts_in(text):
    """Every stock count that a text states, with its part."""
    return [(part, int(many)) for part, many in re.findall(r"(\S+): (\d+) in stock", text)]


@pytest.mark.parametrize(
    ("question", "stock", "documents"),
    [
        ("How many HX-2040 are in stock?", ["HX-2040"], False),
        ("how much is left of hx-2040 and EN-5096, and of HX-2040?", ["HX-2040", "EN-5096"], False),
        ("Is the rotary encoder available?", ["EN-5096"], False),
        ("Which planetary gearbox and which check valve are in stock?", ["CV-0427", "GB-8801"], False),
        ("How do I replace the seals of HX-2040?", [], True),
        ("Why does the pump hum?", [], True),
        (BOTH, ["HX-2040"], True),
        ("HX-2040", ["HX-2040"], True),
        ("What is new?", [], True),
        ("How many are in stock?", [], True),
    ],
)
def test_the_question_decides_which_tools_are_asked(clock, question, stock, documents):
    """Words of stock ask for each part that is named, words of work search the documents; neither asks both."""
    tools = Tools(clock)
    answer = clock.run(tools.assistant.call(question))
    wanted = [("parts_availability", part) for part in stock] + [("maintenance_documents", question)] * documents
    assert tools.asked == wanted
    assert [claim.part for claim in answer.stock] == stock
    assert answer.question == question


def test_an_answer_says_what_both_tools_said(world):
    """Counts carry the reply from which they came; the best passage is in the text and all are in the answer."""

    async def main(clock):
        tools = Tools(clock)
        tools.parts = PartsAvailability(clock, latency=0)
        tools.documents = MaintenanceDocuments(clock, latency=0)
        return await tools.assistant.call(BOTH)

    answer = world.run(main)
    assert counts_in(answer.text) == [("HX-2040", 42)]
    assert isinstance(answer.stock[0].source, StockReply)
    assert answer.documents[0].passage in str(answer)
    assert (answer.invented, answer.unavailable, answer.documents_unavailable) == (0, False, False)
    assert json.loads(json.dumps(answer.to_dict()))["stock"] == [{"part": "HX-2040", "quantity": 42, "source": "live"}]


def test_zero_and_unknown_are_answers(clock):
    """Out of stock is a count of zero, an unknown part is told as unknown; neither is unavailable nor invented."""
    tools = Tools(clock, guess=True)
    answer = clock.run(tools.assistant.call("How many EN-5096 and ZZ-0000 are in stock?"))
    assert answer.text == "EN-5096: 0 in stock. ZZ-0000: unknown part."
    assert [(claim.part, claim.quantity) for claim in answer.stock] == [("EN-5096", 0)]
    assert (answer.invented, answer.unavailable) == (0, False)


def test_tools_are_asked_in_turn_or_together(clock):
    """In turn two tools take the sum of their times, together the longer; the answer is the same."""
    first = clock.run(Tools(clock).assistant.call(BOTH))
    assert clock.now() == 2
    second = clock.run(Tools(clock, together=True).assistant.call(BOTH))
    assert clock.now() == 3
    assert first.text == second.text


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [("error", DependencyError), ("connection_error", ConnectionError), ("rate_limit", DependencyError)],
)
def test_a_tool_that_raises_is_told_or_passed_on(clock, fault, kind, together):
    """Told: the part is unavailable and the documents are searched all the same. Raised: the tool's own error."""
    answer = clock.run(Tools(clock, fault, together=together).assistant.call(BOTH))
    assert "HX-2040: availability unavailable (" in answer.text
    assert (answer.stock, answer.unavailable, answer.documents_unavailable) == ((), True, False)
    assert answer.documents
    raising = Tools(clock, fault, on_error="raise", together=together)
    with pytest.raises(kind):
        clock.run(raising.assistant.call(BOTH))
    assert sum(raising.assistant.outcomes.values()) == 1
    assert raising.documents.in_flight == raising.parts.in_flight == 0


def test_tools_that_fail_together_are_all_heard(clock, caplog):
    """When several tools raise at once the first error is passed on, and none is reported as unheard."""
    tools = Tools(clock, "error", "error", on_error="raise", together=True)

    async def main():
        with pytest.raises(DependencyError, match="parts_availability"):
            await tools.assistant.call("How many HX-2040 and EN-5096 are in stock, and why do they leak?")

    clock.run(main())
    assert len(tools.asked) == 3
    assert caplog.text == ""


def test_documents_that_are_down_are_told(clock):
    """When the search fails, the answer says so and still has the count."""
    answer = clock.run(Tools(clock, documents="error").assistant.call(BOTH))
    assert "The maintenance documents are unavailable (DependencyError: " in answer.text
    assert (answer.unavailable, answer.documents_unavailable, answer.invented) == (False, True, 0)
    assert counts_in(answer.text) == [("HX-2040", 42)]


def test_a_caller_that_gives_up_cancels_every_tool(world):
    """A cancelled question is passed on to the tools, in turn and together; nothing stays in flight."""

    async def main(clock):
        left = []
        for together in (False, True):
            tools = Tools(clock, "hang", "hang", together=together)
            task = clock.start(tools.assistant.call(BOTH))
            await clock.sleep(5 * world.unit)
            task.cancel()
            with pytest.raises(CancelledError):
                await task
            await clock.sleep(5 * world.unit)
            left.append((tools.parts.in_flight, tools.documents.in_flight, tools.assistant.in_flight))
            left.append(dict(tools.assistant.outcomes))
        return left

    assert world.run(main) == [(0, 0, 0), {"cancelled": 1}] * 2


SAYS = [
    "Service error: 42 in stock",
    "HX-2040: 42 in stock",
    Unavailable("the circuit breaker is open", "parts_availability", 12.0),
    42,
    None,
    {"part": "HX-2040", "quantity": 42},
    StockReply("ok", "EN-5096", 42),
]


@pytest.mark.parametrize("said", SAYS, ids=repr)
def test_what_is_no_live_reply_never_becomes_a_number(clock, said):
    """A text with a number, an explicit outcome, a bare number or another part's reply: availability unavailable."""

    async def call(function, argument):
        return said

    assistant = ResearchAssistant(clock)
    assistant.connect(call)
    answer = clock.run(assistant.call("How many HX-2040 are in stock?"))
    assert answer.text.startswith("HX-2040: availability unavailable (")
    assert (answer.stock, answer.unavailable, answer.invented) == ((), True, 0)


def test_the_reason_of_an_explicit_outcome_is_told(clock):
    """What a fallback says in place of an answer stands in the text."""
    assistant = ResearchAssistant(clock)

    async def call(function, argument):
        return SAYS[2]

    assistant.connect(call)
    answer = clock.run(assistant.call("How many HX-2040 are in stock?"))
    assert answer.text == "HX-2040: availability unavailable (the circuit breaker is open)."


@pytest.mark.parametrize("said", SAYS, ids=repr)
def test_a_guess_is_counted_as_invented(clock, said):
    """Told to guess, it states a number that no reply gave, and that number is counted."""

    async def call(function, argument):
        return said

    assistant = ResearchAssistant(clock, guess=True, seed=3)
    assistant.connect(call)
    answer = clock.run(assistant.call("How many HX-2040 are in stock?"))
    assert (answer.invented, answer.unavailable) == (1, False)
    assert answer.stock[0].source == "memory"
    assert counts_in(answer.text) == [("HX-2040", answer.stock[0].quantity)]
    again = ResearchAssistant(clock, guess=True, seed=3)
    again.connect(call)
    assert clock.run(again.call("How many HX-2040 are in stock?")) == answer


def test_what_was_seen_last_is_invented_too(clock):
    """An old count may even be right; said again without a live reply, it is invented all the same."""
    plan = FaultPlan([Window(5, 50, "error")])
    tools = Tools(clock, plan, guess=True, on_error="raise")

    async def main():
        live = await tools.assistant.call("How many HX-2040 are in stock?")
        await clock.sleep(10)
        return live, await tools.assistant.call("How many HX-2040 are in stock?")

    live, stale = clock.run(main())
    assert (live.text, stale.text) == ("HX-2040: 42 in stock.", "HX-2040: 42 in stock, as seen last.")
    assert (live.invented, stale.invented, stale.stock[0].source) == (0, 1, "last seen")


def test_a_claim_is_live_by_what_it_carries():
    """A claim whose reply is about another part, or says another number, is invented."""
    reply = StockReply("ok", "HX-2040", 42)
    assert Claim("HX-2040", 42, reply).live
    for claim in (
        Claim("EN-5096", 42, reply),
        Claim("HX-2040", 41, reply),
        Claim("HX-2040", 42, "memory"),
    ):
        assert not claim.live
        assert Answer("?", "!", (claim,)).invented == 1


@given(
    st.lists(
        st.sampled_from(["healthy", "error", "error_shaped_string", "connection_error", "business_rejection"]),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["none", "in_process", "swallowing"]),
    st.booleans(),
)
def test_every_number_in_a_text_is_a_claim_and_every_claim_without_a_reply_is_counted(faults, adapter, guess):
    """Behind any adapter and under any fault, an honest assistant invents nothing, and a guessing one is seen."""
    clock = VirtualClock()
    parts = PartsAvailability(clock, latency=0)
    ask = make_adapter(adapter, parts)
    assistant = ResearchAssistant(clock, guess=guess)
    assistant.connect(lambda function, argument: ask.call(argument))

    async def main():
        answers = []
        for fault in faults:
            parts.set_fault(fault)
            answers.append(await assistant.call("How many HX-2040 are in stock?"))
        return answers

    for fault, answer in zip(faults, clock.run(main()), strict=True):
        assert counts_in(answer.text) == [(claim.part, claim.quantity) for claim in answer.stock]
        down = fault in ("error", "error_shaped_string", "connection_error")
        assert answer.invented == (1 if guess and down else 0)
        assert answer.unavailable == (down and not guess)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"guess": "yes"}, "'guess' is 'yes'; it must be true or false"),
        ({"together": 1}, "'together' is 1"),
        ({"on_error": "tel"}, "did you mean 'tell'"),
        ({"on_error": None}, "'on_error' cannot be None"),
        ({"stock": ""}, "'stock' is ''; it must be the name of a function"),
        ({"documents": 5}, "'documents' is 5"),
    ],
)
def test_bad_settings_are_one_sentence(clock, settings, said):
    """A setting that cannot be used is refused by its name."""
    with pytest.raises(ServiceError, match=said):
        ResearchAssistant(clock, **settings)


def test_it_must_be_connected_and_asked_something(clock):
    """Without tools, or without a question, one sentence says so, and nothing is counted."""
    assistant = ResearchAssistant(clock)
    with pytest.raises(ServiceError, match="connect it first"):
        clock.run(assistant.call("How many HX-2040?"))
    for question in ("", None, 5):
        with pytest.raises(ServiceError, match="a question is a text"):
            clock.run(assistant.call(question))
    with pytest.raises(ServiceError, match="needs a clock"):
        ResearchAssistant(None)  # type: ignore[arg-type]
    assert assistant.attempts == 0


def test_it_is_recorded_as_a_service(clock):
    """Each question is an attempt with its outcome, for a recorder; a stream is one chunk, the whole answer."""
    tools = Tools(clock, on_error="raise")
    seen = []
    tools.assistant.record = lambda attempt: seen.append(
        (attempt.started, attempt.served, attempt.ended, attempt.outcome)
    )

    async def main():
        chunks = [chunk async for chunk in tools.assistant.stream("HX-2040")]
        tools.parts.set_fault(Fault("error"))
        with pytest.raises(DependencyError):
            await tools.assistant.call("HX-2040")
        return chunks

    chunks = clock.run(main())
    assert [type(chunk) for chunk in chunks] == [Answer]
    assert seen == [(0, 0, 2, "answered"), (2, 2, 3, "error")]
    assert (tools.assistant.attempts, tools.assistant.in_flight, tools.assistant.in_flight_peak) == (2, 0, 1)


# -- where the breaker stands ------------------------------------------------------------------------------------------

STACK = """
middleware:
  breaker: {{_type: circuit_breaker, failure_threshold: 3, cooldown_period: 30}}
  say_so: {{_type: fallback, errors: [DependencyError, CircuitBreakerOpenError]}}
functions:
  parts_availability: {{_type: parts_availability, middleware: {tool}}}
  maintenance_documents: {{_type: maintenance_documents}}
  research_assistant: {{_type: research_assistant, middleware: {assistant}}}
"""


def placed(clock, tool, assistant, **settings):
    """A stack with the breaker where the lists say, in which the parts service is down."""
    parts = PartsAvailability(clock, plan="error", latency=0)
    documents = MaintenanceDocuments(clock, latency=0)
    helper = ResearchAssistant(clock, **settings)
    stack = Stack.load(
        STACK.format(tool=tool, assistant=assistant),
        services={
            "parts_availability": make_adapter("in_process", parts),
            "maintenance_documents": make_adapter("in_process", documents),
            "research_assistant": make_adapter("in_process", helper),
        },
        clock=clock,
    )
    helper.connect(stack.call)
    return stack, parts, documents


async def ask_in_turn(stack, times):
    """So many answers, or exceptions in their place."""
    found = []
    for _ in range(times):
        try:
            found.append(await stack.call("research_assistant", BOTH))
        except Exception as error:  # the test judges it
            found.append(error)
    return found


def test_a_breaker_around_the_tool_leaves_the_healthy_tool_alone(clock):
    """With a breaker of its own the tool is spared after three calls, and the documents are searched each time."""
    stack, parts, documents = placed(clock, tool="[say_so, breaker]", assistant="[]")
    answers = clock.run(ask_in_turn(stack, 10))
    assert (parts.attempts, documents.attempts) == (3, 10)
    assert all(answer.unavailable and answer.documents and answer.invented == 0 for answer in answers)
    assert "the circuit breaker is open" in answers[-1].text


def test_a_breaker_around_the_whole_assistant_turns_the_healthy_tool_dark(clock):
    """Behind one breaker for all, three failures of one tool take the other away as well."""
    stack, parts, documents = placed(clock, tool="[]", assistant="[breaker]", on_error="raise")
    found = clock.run(ask_in_turn(stack, 10))
    assert [type(one) for one in found] == [DependencyError] * 3 + [CircuitBreakerOpenError] * 7
    assert (parts.attempts, documents.attempts) == (3, 0)


def test_an_assistant_that_tells_keeps_a_breaker_around_it_closed(clock):
    """If the assistant turns failures into words, a breaker around it sees successes only, and spares nobody."""
    stack, parts, documents = placed(clock, tool="[]", assistant="[breaker]")
    answers = clock.run(ask_in_turn(stack, 10))
    assert (parts.attempts, documents.attempts) == (10, 10)
    assert all(answer.unavailable for answer in answers)
