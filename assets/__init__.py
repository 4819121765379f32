"""The Dagster project, a thin layer over the library. Code without Dagster is in the library."""

import warnings

import dagster

# Multi-partition mappings and backfill policies are marked beta in the pinned minor version, and
# checks with partitions are marked preview.
warnings.filterwarnings("ignore", category=dagster.BetaWarning)
warnings.filterwarnings("ignore", category=dagster.PreviewWarning)
