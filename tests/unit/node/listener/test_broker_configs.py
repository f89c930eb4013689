"""A node's own configuration, as tools read it."""

from fleetgauge.node.config import load_config
from fleetgauge.node.listener.apis.broker_configs import BrokerConfigs


def test_tools_read_the_configuration_without_its_secrets() -> None:
    secrets = ("ssl.key.password", "ssl.keystore.key", "http.ssl.key.password")
    config = load_config(overrides=[f"{key}=hunter2" for key in secrets])
    told = {each.key: each.value for each in BrokerConfigs(config).describe(str(config.node_id))}
    assert {key: told[key] for key in secrets} == dict.fromkeys(secrets)
    assert "hunter2" not in str(told)
    assert told["telemetry.max.bytes"] == "1048576"
