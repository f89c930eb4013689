"""Spark's Python workers, in which the steps on executors run."""

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Spares the next tasks of this worker half a second each; every step calls it when it begins.

    A worker begins each task with `importlib.invalidate_caches`, upon which each importer of a zip archive reads the
    archive's directory again (Python 3.11), and there is one for every package of PySpark's that was imported from
    `pyspark.zip`, and one for Spark's own jar. An importer that is forgotten is made anew when it is asked for, from
    what is known of its archive.
    """
    cache = sys.path_importer_cache
    for path in [path for path, importer in cache.items() if isinstance(importer, zipimporter)]:
        del cache[path]
