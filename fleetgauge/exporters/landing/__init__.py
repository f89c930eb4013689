"""The exporter `landing`: push records as Parquet files for Spark."""
