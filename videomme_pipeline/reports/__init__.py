"""Reports: the results page, charts, score reports and terminal output."""
