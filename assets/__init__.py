"""The Dagster project: one thin module a stage over the library. No domain code belongs here."""

import warnings

import dagster

# Multi-partition mappings and backfill policies are marked beta in the pinned minor version.
warnings.filterwarnings("ignore", category=dagster.BetaWarning)
