"""DescribeClientQuotas (48) and AlterClientQuotas (49), answered as by a broker of Kafka 4.3 (KIP-546, KIP-612).

See `node.state.client_quotas` for the limits and their checks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fleetgauge.base.errors import ErrorCode, InvalidRequestError, KafkaError
from fleetgauge.cluster.quotas.limits import CLIENT_ID, IP, USER, Entity, Parts, entity_of, parts_of
from fleetgauge.node.listener.apis.admin import Change, bounded, not_written
from fleetgauge.node.listener.apis.messages import answer, error_fields, new_part
from fleetgauge.node.state.client_quotas import ClientQuotas, QuotaLimits, QuotaOperation, differences
from fleetgauge.node.state.node_state import Transaction
from fleetgauge.push_log.log import PushLogError
from fleetgauge.quotas.connections.connection_quota_config import canonical_address
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.messages.codec import Request

_EXACT, _DEFAULT, _SPECIFIED = range(3)
"""Kafka's match types of a filter."""


class ClientQuotaApis:
    """The two APIs; see `AdminApi`."""

    keys = (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS)

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def refusal(self, request: Request, body: Any, error: KafkaError) -> bytes | None:
        """See `AdminApi`."""
        if request.api_key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return _answer_describe(request, error)
        return None if body is None else _answer_alter(request, [(each.entity, error) for each in body.entries])

    def serve(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """See `AdminApi`."""
        if request.api_key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return self._describe(request, body, transaction), ()
        return self._alter(request, body, transaction)

    def _describe(self, request: Request, body: Any, transaction: Transaction) -> bytes:
        try:
            matches = _filter(body.components, is_strict=body.strict)
        except KafkaError as error:
            return _answer_describe(request, error)
        limits = ((parts_of(entity), values) for entity, values in self._quotas.limits(transaction).effective().items())
        return _answer_describe(request, None, [(parts, values) for parts, values in limits if matches(parts)])

    def _alter(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """Applies the request's changes in one transaction; a refused entity does not keep the others from theirs."""
        bounded(len(body.entries))
        entities = {_identity(each.entity): each.entity for each in body.entries}
        errors: dict[frozenset[tuple[str, str | None]], KafkaError | None] = {}
        changes: list[Change] = []

        def alter(limits: QuotaLimits) -> QuotaLimits:
            """Returns the limits after the request, and notes its errors and changes; may be called again."""
            errors.clear()
            altered: dict[Entity, dict[str, float]] = {}
            added = 0
            for each in body.entries:
                identity = _identity(each.entity)
                try:
                    if identity in errors or len({op.key for op in each.ops}) < len(each.ops):
                        raise InvalidRequestError(f"Ignoring duplicate entity {_as_java_prints(each.entity)}")
                    entity = entity_of(_parts(each.entity))
                    altered[entity] = limits.altered(entity, _operations(each.ops), added=added)
                    added += entity not in limits.changed
                    errors[identity] = None
                except KafkaError as error:
                    errors[identity] = error
            after = limits.having(altered)
            if not body.validate_only:
                changes[:] = [
                    Change("client_quotas.changed", {"entity": path, "before": old, "after": new})
                    for path, old, new in differences(limits, after, altered)
                ]
            return after

        try:
            if body.validate_only:
                alter(self._quotas.limits(transaction))
            else:
                self._quotas.change(transaction, alter)
        except PushLogError as error:
            errors = dict.fromkeys(entities, not_written(error))
            changes.clear()
        return _answer_alter(request, [(entities[identity], error) for identity, error in errors.items()]), changes


def _operations(ops: Iterable[Any]) -> list[QuotaOperation]:
    return [QuotaOperation(op.key, None if op.remove else op.value) for op in ops]


def _parts(entity: Sequence[Any]) -> dict[str, str | None]:
    parts: dict[str, str | None] = {}
    for each in entity:
        if each.entity_type in parts:
            raise InvalidRequestError(f"Client quota entity contains duplicate entity type {each.entity_type}")
        parts[each.entity_type] = each.entity_name
    return parts


def _identity(entity: Iterable[Any]) -> frozenset[tuple[str, str | None]]:
    return frozenset((each.entity_type, each.entity_name) for each in entity)


def _as_java_prints(entity: Iterable[Any]) -> str:
    shown = sorted((each.entity_type, "null" if each.entity_name is None else each.entity_name) for each in entity)
    return f"ClientQuotaEntity(entries={{{', '.join(f'{kind}={name}' for kind, name in shown)}}})"


class _UnsupportedEntityError(KafkaError):
    """A filter for an entity type that Kafka does not have."""

    error_code = ErrorCode.UNSUPPORTED_VERSION


def _filter(components: Iterable[Any], *, is_strict: bool) -> Callable[[Parts], bool]:
    """Returns what the entities of an answer match, as Kafka's `ClientQuotasImage`.

    Raises:
        KafkaError: Kafka refuses the filter.
    """
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for each in components:
        kind, match = each.entity_type, each.match
        _check_component(kind, each.match_type, match, known={*exact, *specified})
        if each.match_type == _SPECIFIED:
            specified.add(kind)
        else:
            exact[kind] = match if kind != IP or match is None else _canonical(match)
    kinds = {*exact, *specified}
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    if not kinds:
        return lambda _: not is_strict

    def matches(parts: Parts) -> bool:
        if not kinds <= parts.keys() or (is_strict and len(parts) > len(kinds)):
            return False
        return all(parts[kind] == name for kind, name in exact.items())

    return matches


def _check_component(kind: str, match_type: int, match: str | None, known: set[str]) -> None:
    if not kind:
        raise InvalidRequestError("Invalid empty entity type.")
    if kind in known:
        raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in (USER, CLIENT_ID, IP):
        raise _UnsupportedEntityError(f"Unsupported entity type {kind}")
    if match_type == _EXACT and match is None:
        raise InvalidRequestError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match_type in (_DEFAULT, _SPECIFIED) and match is not None:
        name = "MATCH_TYPE_DEFAULT" if match_type == _DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise InvalidRequestError(f"Request specified {name}, but also specified a match string.")
    if match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
        raise InvalidRequestError(f"Unknown match type {match_type}")


def _canonical(address: str) -> str:
    try:
        return canonical_address(address)
    except ValueError:
        return address


def _answer_describe(
    request: Request, error: KafkaError | None, limits: Iterable[tuple[Parts, Mapping[str, float]]] = ()
) -> bytes:
    entries = tuple(
        new_part(
            request,
            "EntryData",
            entity=_entity(request, parts.items()),
            values=tuple(new_part(request, "ValueData", key=key, value=value) for key, value in values.items()),
        )
        for parts, values in limits
    )
    return answer(request, **error_fields(error, without=""), entries=None if error else entries)


def _answer_alter(request: Request, results: Iterable[tuple[Sequence[Any], KafkaError | None]]) -> bytes:
    entries = tuple(
        new_part(
            request,
            "EntryData",
            **error_fields(error),
            entity=_entity(request, ((each.entity_type, each.entity_name) for each in entity)),
        )
        for entity, error in results
    )
    return answer(request, entries=entries)


def _entity(request: Request, parts: Iterable[tuple[str, str | None]]) -> tuple[Any, ...]:
    return tuple(new_part(request, "EntityData", entity_type=kind, entity_name=name) for kind, name in parts)
