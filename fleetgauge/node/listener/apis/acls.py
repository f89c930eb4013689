"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): what `kafka-acls.sh` sends.

Answered as by a broker of Kafka 4.3 with `StandardAuthorizer`; see `node.authorizer.acls` for the checks. Without
an authorizer each is answered SECURITY_DISABLED, as there.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from fleetgauge.base.errors import ErrorCode, InvalidRequestError, KafkaError, PolicyViolationError
from fleetgauge.node.authorizer.acls import Acl, AclFilter, AclOperation, PatternType, Permission, ResourceType
from fleetgauge.node.listener.apis.admin import Change, bounded, not_written
from fleetgauge.node.listener.apis.messages import answer, error_fields, new_part
from fleetgauge.node.state.authorization import MAX_CHARACTERS, Authorization, described
from fleetgauge.node.state.node_state import Transaction
from fleetgauge.push_log.log import PushLogError
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.codec import Request

_DECLARED: Final = (
    "is declared in the configuration file of this node and would still be in force: remove it from its table and send "
    "SIGHUP"
)


class SecurityDisabledError(KafkaError):
    """There is no authorizer."""

    error_code = ErrorCode.SECURITY_DISABLED


class AclApis:
    """The three APIs; an `AdminApi`.

    Args:
        authorization: has the ACLs.
    """

    keys: Sequence[ApiKey] = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def refusal(self, request: Request, body: Any, error: KafkaError) -> bytes | None:
        """See `AdminApi`."""
        if request.api_key == ApiKey.DESCRIBE_ACLS:
            return _describe(request, (), error)
        if body is None:
            return None
        if request.api_key == ApiKey.CREATE_ACLS:
            return _created(request, [error] * len(body.creations))
        return _deleted(request, [error] * len(body.filters))

    def serve(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """See `AdminApi`."""
        if request.api_key == ApiKey.DESCRIBE_ACLS:
            return self._describe(request, body, transaction), ()
        if request.api_key == ApiKey.CREATE_ACLS:
            return self._create(request, body.creations, transaction)
        return self._delete(request, body.filters, transaction)

    def _describe(self, request: Request, body: Any, transaction: Transaction) -> bytes:
        wanted = _filter(body)
        if not self._authorization.is_enabled:
            return _describe(request, (), _no_authorizer())
        return _describe(request, wanted.select(self._authorization.acls(transaction)), None)

    def _create(
        self, request: Request, creations: Sequence[Any], transaction: Transaction
    ) -> tuple[bytes, Sequence[Change]]:
        bounded(len(creations))
        acls = list(map(_acl, creations))
        if not self._authorization.is_enabled:
            return _created(request, [_no_authorizer()] * len(acls)), ()
        errors = list(map(_problem, acls))
        created: list[Acl] = []
        valid = [acl for acl, error in zip(acls, errors, strict=True) if error is None]
        if valid:
            former = self._authorization.acls(transaction)
            try:
                self._authorization.create(transaction, valid)
            except (PushLogError, PolicyViolationError) as error:
                failure = error if isinstance(error, KafkaError) else not_written(error)
                errors = [error or failure for error in errors]
            else:
                created = [acl for acl in dict.fromkeys(valid) if acl not in former]
        return _created(request, errors), _changed("created", created)

    def _delete(
        self, request: Request, filters: Sequence[Any], transaction: Transaction
    ) -> tuple[bytes, Sequence[Change]]:
        bounded(len(filters))
        wanted = list(map(_filter, filters))
        if not self._authorization.is_enabled:
            return _deleted(request, [_no_authorizer()] * len(wanted)), ()
        problems = list(map(_problem, wanted))
        valid = [each for each, problem in zip(wanted, problems, strict=True) if problem is None]
        try:
            matched = iter(self._authorization.delete(transaction, valid) if valid else ())
        except (PushLogError, PolicyViolationError) as error:
            failure = error if isinstance(error, KafkaError) else not_written(error)
            return _deleted(request, [problem or failure for problem in problems]), ()
        results = [next(matched) if problem is None else problem for problem in problems]
        acls = {acl: None for result in results if isinstance(result, list) for acl in result}
        gone = [acl for acl in acls if not self._authorization.is_declared(acl)]
        return _deleted(request, results, self._authorization), _changed("deleted", gone)


def _changed(what: str, acls: Sequence[Acl]) -> Sequence[Change]:
    return [Change("acls.changed", {what: list(map(described, acls))})] if acls else ()


def _no_authorizer() -> KafkaError:
    return SecurityDisabledError("No Authorizer is configured.")


def _problem(asked: Acl | AclFilter) -> KafkaError | None:
    try:
        asked.check()
        if (
            isinstance(asked, Acl)
            and max(map(len, (asked.resource_name, asked.principal, asked.host))) > MAX_CHARACTERS
        ):
            raise InvalidRequestError(f"Names, principals and hosts of ACLs have at most {MAX_CHARACTERS} characters")
    except KafkaError as error:
        return error
    return None


def _acl(asked: Any) -> Acl:
    return Acl(
        **_codes(asked, asked.resource_type, asked.resource_pattern_type),
        resource_name=asked.resource_name,
        principal=asked.principal,
        host=asked.host,
    )


def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        **_codes(asked, asked.resource_type_filter, asked.pattern_type_filter),
        resource_name=asked.resource_name_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
    )


def _codes(asked: Any, resource_type: int, pattern_type: int) -> dict[str, Any]:
    """The codes of an ACL or filter.

    Raises:
        ProtocolError: one of them is UNKNOWN itself, at which a broker closes the connection.
    """
    if 0 in (resource_type, pattern_type, asked.operation, asked.permission_type):
        raise ProtocolError("malformed_body", "an ACL contains UNKNOWN elements")
    return {
        "resource_type": ResourceType(resource_type),
        "pattern_type": PatternType(pattern_type),
        "operation": AclOperation(asked.operation),
        "permission": Permission(asked.permission_type),
    }


def _describe(request: Request, acls: Iterable[Acl], error: KafkaError | None) -> bytes:
    resources = tuple(
        new_part(
            request,
            "DescribeAclsResource",
            **pattern,
            acls=tuple(new_part(request, "AclDescription", **_entry(acl)) for acl in of_pattern),
        )
        for pattern, of_pattern in groupby(acls, _pattern_of)
    )
    return answer(request, **error_fields(error, without=""), resources=resources)


def _created(request: Request, errors: Iterable[KafkaError | None]) -> bytes:
    results = tuple(new_part(request, "AclCreationResult", **error_fields(error, without="")) for error in errors)
    return answer(request, results=results)


def _deleted(
    request: Request, results: Iterable[KafkaError | list[Acl]], authorization: Authorization | None = None
) -> bytes:
    """The response to DeleteAcls: of each filter, its error, or the ACLs that it matched."""

    def matching(acl: Acl) -> Any:
        """One ACL that a filter matched, with an error if it stays."""
        is_kept = authorization is not None and authorization.is_declared(acl)
        error = PolicyViolationError(f"{described(acl)} {_DECLARED}") if is_kept else None
        return new_part(request, "DeleteAclsMatchingAcl", **error_fields(error), **_pattern_of(acl), **_entry(acl))

    filter_results = []
    for result in results:
        error, acls = (result, []) if isinstance(result, KafkaError) else (None, result)
        of_filter = tuple(map(matching, acls))
        filter_results.append(
            new_part(request, "DeleteAclsFilterResult", **error_fields(error), matching_acls=of_filter)
        )
    return answer(request, filter_results=tuple(filter_results))


def _pattern_of(acl: Acl) -> dict[str, Any]:
    return {"resource_type": acl.resource_type, "resource_name": acl.resource_name, "pattern_type": acl.pattern_type}


def _entry(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
