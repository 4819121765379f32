"""The list of models that an endpoint serves."""

from videomme_pipeline.errors import ModelError

TIMEOUT_SECONDS = 5.0


def served_models(base_url: str, api_key: str | None) -> list[str]:
    """Sorted names in the answer to `GET {base_url}/models`.

    Raises:
        ModelError: if the endpoint does not answer with a list within `TIMEOUT_SECONDS`.
    """
    import httpx2  # noqa: PLC0415 - takes 0.3 s, and only few commands need it

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    url = f"{base_url.rstrip('/')}/models"
    try:
        response = httpx2.get(url, headers=headers, timeout=TIMEOUT_SECONDS, follow_redirects=True)
        return sorted(str(model["id"]) for model in response.raise_for_status().json()["data"])
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{base_url} does not list its models ({type(error).__name__}: {error}); is the "
            "server up, and does base_url end in /v1?"
        ) from error
