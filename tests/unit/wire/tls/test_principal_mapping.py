"""Mapping rules: the cases of Kafka's own SslPrincipalMapperTest, and Java's replacement rules."""

import pytest

from fleetgauge.wire.tls.principal_mapping import PrincipalMapper

KAFKAS_RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_kafkas_own_examples(subject: str, name: str) -> None:
    assert PrincipalMapper(KAFKAS_RULES).name_of(subject) == name


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=a,OU=b"),
        ("", None),
        (",,DEFAULT", "CN=a,OU=b"),
        ("RULE:^CN=x$/x/", None),
        (r"RULE:^CN=(.),OU=(.)$/$1@$3/", "a@$3"),
        (r"RULE:^CN=(.),OU=(.)$/\$1-$2/U", "$1-B"),
        (r"RULE:^CN=(.)\/?,OU=(.)$/$2\/$1/", "b/a"),
        (r"RULE:CN=(.)/$1/", None),
        ("RULE:^CN=(.)(z)?,OU=.$/[$1$2]/", "[a]"),
    ],
)
def test_what_a_rule_makes_of_a_name(rules: str, name: str | None) -> None:
    assert PrincipalMapper(rules).name_of("CN=a,OU=b") == name


@pytest.mark.parametrize(
    "rules",
    ["default", "DEFAUL", "DEFAULT/L", "DEFAULT/", "RULE:CN=(.*?),OU=x/$1", "RULE:^CN=(.*?)$/$1/k", "RULE:(/x/"],
)
def test_what_kafka_refuses_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"rule|pattern"):
        PrincipalMapper(rules)
