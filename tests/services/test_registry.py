"""Services and adapters by name, as a scenario's file names them."""

from __future__ import annotations

import pytest

from labkit.errors import BusinessRejection, DependencyError, ServiceError
from labkit.services import (
    Latency,
    MaintenanceDocuments,
    PartsAvailability,
    ResearchAssistant,
    make_adapter,
    make_service,
    register_adapter,
    register_service,
)
from labkit.services import registry as registry_module

OUTAGE = [{"from": 60, "to": 180, "fault": "hang"}, {"from": 180, "to": 240, "capacity": [[180, 20], [200, 60]]}]


@pytest.mark.parametrize(
    ("type_", "kind"), [("parts_availability", PartsAvailability), ("maintenance_documents", MaintenanceDocuments)]
)
def test_a_mock_service_is_made_from_its_settings(clock, type_, kind):
    """Workers, queue, latency and timeline are what the file says, and the service has the file's name."""
    settings = {
        "workers": 200,
        "queue": 100,
        "latency": {"distribution": "lognormal", "median": 0.05, "sigma": 0.3},
        "faults": OUTAGE,
    }
    service = make_service("backend", type_, settings, clock, 7)
    assert type(service) is kind
    assert (service.name, service.workers, service.latency) == ("backend", 200, Latency.lognormal(0.05, 0.3))
    assert [period.words for period in service.periods(300)] == ["hang", "capacity 20 of 200", "capacity 60 of 200"]
    assert service.log.maxlen == 0


@pytest.mark.parametrize(
    "settings", [{}, {"workers": None, "queue": None, "faults": None}, {"latency": 0.05, "faults": []}]
)
def test_settings_that_are_left_out_have_their_defaults(clock, settings):
    """Without settings, or with null for them, a service is healthy, unlimited and takes 0.05 s."""
    service = make_service("parts_availability", "parts_availability", settings, clock)
    assert clock.run(service.call("HX-2040")).quantity == 42
    assert (clock.now(), service.workers) == (0.05, None)


def test_the_assistant_is_made_from_its_settings(clock):
    """The assistant's settings are those of its class; null is the default."""
    settings = {"guess": True, "on_error": "raise", "together": True, "stock": "a", "documents": None}
    assistant = make_service("helper", "research_assistant", settings, clock, 3)
    asked = []

    async def call(function, argument):
        asked.append(function)
        raise DependencyError("no")

    assistant.connect(call)
    assert type(assistant) is ResearchAssistant
    assert assistant.name == "helper"
    assert clock.run(assistant.call("How many HX-2040 are in stock?")).invented == 1
    with pytest.raises(DependencyError):
        clock.run(assistant.call("Why does HX-2040 leak?"))
    assert asked == ["a", "maintenance_documents"]


def test_names_draw_differently_from_one_seed(clock):
    """Two services of one run have the same seed and latencies of their own; the same name draws the same."""
    settings = {"latency": {"distribution": "exponential", "mean": 1}}

    def took(name):
        service = make_service(name, "parts_availability", settings, clock, 7)
        before = clock.now()
        clock.run(service.call("HX-2040"))
        return round(clock.now() - before, 9)

    assert took("a") == took("a") != took("b")


@pytest.mark.parametrize(
    ("type_", "settings", "said", "path"),
    [
        ("parts_availabilty", {}, "did you mean 'parts_availability'", ("_type",)),
        (None, {}, "no service of the type None", ("_type",)),
        ("parts_availability", {"worker": 5}, "no setting 'worker'; did you mean 'workers'", ("worker",)),
        ("parts_availability", {"workers": 0}, "'workers' is 0", ("workers",)),
        ("parts_availability", {"queue": 5}, "'queue' means nothing without 'workers'", ("queue",)),
        ("parts_availability", {"latency": "fast"}, "the latency is 'fast'", ("latency",)),
        (
            "parts_availability",
            {"latency": {"distribution": "uniform", "low": 1}},
            "'uniform' needs 'high'",
            ("latency",),
        ),
        (
            "parts_availability",
            {"faults": [{"from": 1, "to": 2, "fault": "hnag"}]},
            r"faults\[0\]: ",
            ("faults", 0, "fault"),
        ),
        ("parts_availability", {"faults": OUTAGE}, "'capacity' means nothing without 'workers'", ("workers",)),
        ("parts_availability", {"workers": 10, "faults": OUTAGE}, "more than the service's 10 workers", ("workers",)),
        ("parts_availability", [], "they must be a mapping", ()),
        ("research_assistant", {"workers": 5}, "no setting 'workers'", ("workers",)),
        ("research_assistant", {"guess": "no"}, "'guess' is 'no'", ("guess",)),
        ("research_assistant", {"on_error": "rais"}, "did you mean 'raise'", ("on_error",)),
    ],
)
def test_settings_that_are_wrong_are_one_sentence(clock, type_, settings, said, path):
    """The sentence names the service, what was found and the nearest known name; `path` leads to the value."""
    with pytest.raises(ServiceError, match=said) as caught:
        make_service("backend", type_, settings, clock)
    assert str(caught.value).startswith("service 'backend': ")
    assert "\n" not in str(caught.value)
    assert caught.value.path == path


def test_a_further_type_can_be_registered(clock, monkeypatch):
    """A type that was registered is made from its settings, and its own sentences name the service."""
    monkeypatch.setattr(registry_module, "_SERVICES", dict(registry_module._SERVICES))

    def make(name, settings, clock, seed):
        if "colour" not in settings:
            raise ServiceError("a colour is needed", ["colour"])
        return PartsAvailability(clock, name=name, latency=settings["colour"])

    register_service("painted", make)
    assert make_service("p", "painted", {"colour": 3}, clock).latency == Latency.constant(3)
    with pytest.raises(ServiceError, match="service 'p': a colour is needed"):
        make_service("p", "painted", {}, clock)


def test_adapters_differ_in_what_leaves_them(clock):
    """In process classifies, none hands on, swallowing never raises, raise_business raises the business's no."""

    def through(adapter, fault, part="HX-2040"):
        service = PartsAvailability(clock, plan=fault, latency=0)
        try:
            return clock.run(make_adapter(adapter, service).call(part))
        except Exception as error:  # the test judges it
            return error

    def kind(*arguments):
        return type(through(*arguments)).__name__

    names = ("in_process", "none", "swallowing", "raise_business")
    assert [kind(name, "healthy") for name in names] == ["StockReply"] * 4
    assert [kind(name, "healthy", "ZZ-0000") for name in names] == ["StockReply"] * 3 + ["BusinessRejection"]
    assert [kind(name, "error") for name in names] == ["DependencyError", "DependencyError", "str", "DependencyError"]
    assert [kind(name, "error_shaped_string") for name in names] == ["DependencyError", "str", "str", "DependencyError"]


@pytest.mark.parametrize("adapter", ["in_process", "none", "swallowing", "raise_business"])
def test_every_adapter_streams(clock, adapter):
    """A stream of either service passes every adapter whole."""

    async def main():
        found = []
        for service, subject in (
            (PartsAvailability(clock, latency=0), "HX-2040"),
            (MaintenanceDocuments(clock, latency=0), "grease a bearing"),
        ):
            found.append([chunk async for chunk in make_adapter(adapter, service).stream(subject)])
        return found

    parts, documents = clock.run(main())
    assert parts[-1].quantity == 42
    assert documents[0].hits


def test_raise_business_raises_in_a_stream_too(clock):
    """The mistake is the same for a stream: an unknown part is raised."""

    async def main():
        with pytest.raises(BusinessRejection, match="ZZ-0000: unknown part"):
            await anext(make_adapter("raise_business", PartsAvailability(clock, latency=0)).stream("ZZ-0000"))

    clock.run(main())


def test_an_unknown_adapter_names_the_nearest(clock, monkeypatch):
    """A misspelt adapter is one sentence; one that was registered is found."""
    service = PartsAvailability(clock)
    with pytest.raises(ServiceError, match="did you mean 'swallowing'") as caught:
        make_adapter("swalowing", service)
    assert caught.value.path == ("adapter",)
    with pytest.raises(ServiceError, match="no adapter None"):
        make_adapter(None, service)
    monkeypatch.setattr(registry_module, "_ADAPTERS", dict(registry_module._ADAPTERS))
    register_adapter("pair", lambda service: (service, service))
    assert make_adapter("pair", service) == (service, service)
