"""`fleetgauge doctor`: checks the installation, the machine, the configuration and the brokers. Nothing is changed."""
