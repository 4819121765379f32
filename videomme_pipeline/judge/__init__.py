"""An optional second reader of responses: a model that is asked over the journal."""
