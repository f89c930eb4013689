"""An Airflow DAG: updates the tables every hour, and maintains them every night.

Copy it into Airflow's `dags` folder and set the three names. The commands are plain processes: an exit code other than
0 fails the task, a retry goes on where the run before was cut off, and nothing is counted twice. Java 17 or 21 and
`pip install 'fleetgauge[spark]'` are needed where the task runs. `airflow dags test fleetgauge_run` tries it (done with
Airflow 3.3.2).
"""

from datetime import datetime, timedelta

try:
    from airflow.providers.standard.operators.bash import BashOperator  # Airflow 3
except ModuleNotFoundError:
    from airflow.operators.bash import BashOperator  # Airflow 2
from airflow import DAG

FLEETGAUGE = "/opt/fleetgauge/bin/fleetgauge"
SOURCE = "/var/lib/fleetgauge/landing"
TABLES = "/var/lib/fleetgauge/fleet"

DEFAULTS = {"retries": 3, "retry_delay": timedelta(minutes=5), "execution_timeout": timedelta(hours=1)}

with DAG(
    dag_id="fleetgauge_run",
    schedule="10 * * * *",  # the files of an hour are complete one minute later
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001  # Airflow takes it as UTC
    catchup=False,
    max_active_runs=1,  # a second run on the same tables is refused
    default_args=DEFAULTS,
) as run:
    BashOperator(
        task_id="run",
        bash_command=f"{FLEETGAUGE} fleet run --source {SOURCE} --tables {TABLES} --format json",
    )

with DAG(
    dag_id="fleetgauge_maintain",
    schedule="40 3 * * *",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
) as maintain:
    BashOperator(
        task_id="maintain",
        bash_command=f"{FLEETGAUGE} fleet maintain --tables {TABLES} --keep 90d --format json",
    )
