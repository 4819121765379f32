"""The Dagster project: a thin layer over the library. Domain code belongs in the library."""

import warnings

import dagster

# Multi-partition mappings and backfill policies are marked beta in the pinned minor version.
warnings.filterwarnings("ignore", category=dagster.BetaWarning)
