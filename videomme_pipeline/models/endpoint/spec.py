"""Settings of a model of an OpenAI-compatible endpoint in `models.yaml`."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, model_validator

from videomme_pipeline.configuration import secret_error
from videomme_pipeline.errors import ModelError
from videomme_pipeline.frames.cache import FrameSet
from videomme_pipeline.frames.picture import PictureSpec
from videomme_pipeline.models.endpoint import frame_tokens as token_rules
from videomme_pipeline.models.endpoint.endpoints import PROFILES, EndpointProfile, FramesAs, Profile
from videomme_pipeline.models.endpoint.managed import Serve, ServeSpec
from videomme_pipeline.models.endpoint.served import ServedModel, list_models, reported_identity
from videomme_pipeline.models.identity import ServerIdentity, release_of, shown_differences
from videomme_pipeline.models.pricing import OPENAI_URL, Prices, Tariff
from videomme_pipeline.models.spec import ModelSpec, Schedule


def _urls_without_secrets(urls: str | tuple[str, ...]) -> str | tuple[str, ...]:
    for url in (urls,) if isinstance(urls, str) else urls:
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise secret_error("it is not a URL; put http:// or https:// before the host")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise secret_error(
                "it contains a user name, a query or a fragment; write only scheme, host, port and "
                "path, and put a key into the environment variable that `api_key_env` names"
            )
    if not isinstance(urls, str) and not 0 < len(urls) == len(set(urls)):
        raise secret_error("it is a list without a URL, or with the same URL twice")
    return urls


def _variable_name(name: str) -> str:
    if not name.isidentifier():
        raise secret_error(
            "it is not the name of an environment variable; put the key into a variable, such as "
            "MY_KEY, and write the name of the variable here"
        )
    return name


def _profile_of_servers(values: dict[str, Any]) -> Profile:
    serve: ServeSpec | None = values.get("serve")
    return "generic" if serve is None else serve.profile


class EndpointSpec(ModelSpec):
    """A model of an endpoint that speaks OpenAI's chat completions.

    Other packages may derive models of other endpoints from it.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    kind: Literal["openai_compatible"] = "openai_compatible"
    model: str | None = None
    """The endpoint's name for the model. Default: `name`."""
    base_url: Annotated[str | tuple[str, ...], AfterValidator(_urls_without_secrets)] | None = None
    """URL of the endpoint with `/v1`, or a list of URLs of the same model. Default: OpenAI's."""
    serve: Serve | None = None
    """Servers that are started for a run and stopped at its end, instead of `base_url`."""
    profile: Profile = Field(default_factory=_profile_of_servers)
    """Family of endpoints. Default: the family of the engine in `serve`, or else `generic`."""
    api_key_env: Annotated[str, AfterValidator(_variable_name)] | None = None
    """Environment variable that contains the key. Keys are never written in a file."""
    revision: str | None = None
    """Your own label for weights or quantization. Another revision counts as another model."""
    engine_version: str | None = Field(default=None, pattern=r"^\d+\.\d+\.\d")
    """Version of the engine of a gateway, if it reports none (`frames_as: video_file`)."""
    frames_as: FramesAs | None = None
    """The way to send frames. Default: the first way that the profile lists."""
    audio: bool = False
    """Send the sound of the video after its frames. Results with audio are a separate track."""
    image_detail: Literal["auto", "low", "high", "original"] | None = None
    """Resolution at which OpenAI models see a picture. Other endpoints ignore it."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, sent unchanged."""
    shared_folder: Path | None = None
    """With `frames_as: video_file`: a folder that the endpoint can read too."""
    schedule: Schedule | None = None
    """Order of the questions of one video. Default: the profile's."""
    service_tier: Literal["flex"] | None = None
    """OpenAI's cheaper service tier, which answers more slowly."""
    max_images: int | None = Field(default=None, ge=1)
    max_body_bytes: int | None = Field(default=None, ge=1)
    max_model_len: int | None = Field(default=None, ge=1)
    """Context of the model in tokens. Default: what vLLM, SGLang and llama.cpp report."""
    finish_reasons: tuple[str, ...] = ()
    """Further values of `finish_reason` that this endpoint sends with complete answers."""
    family: token_rules.FamilyName | None = None
    """Family whose rule gives the prompt tokens of frames: `model_type` in `config.json`, or the
    start of a model's name. Default: by the weights of `serve`, or else by `model`."""
    tokens_per_frame: int | None = Field(default=None, ge=1)
    """Prompt tokens of one frame, for models without a published rule. Detects dropped frames."""
    count_texts: bool | None = None
    """Count the tokens of each text with a request without frames, which shows how many frames
    arrived. Default: True at endpoints that do not cost money and have no `requests_per_minute`."""
    prices: Prices | None = None
    """Override the list prices."""
    is_paid: bool | None = None
    """True if lost answers cost money (every answer is then flushed to disk). Default: True with
    `prices`, else the profile's."""
    _server: str | None = PrivateAttr(default=None)
    _served_name: str | None = PrivateAttr(default=None)
    """The name of the model in requests to servers that were started."""
    _logs: Path | None = PrivateAttr(default=None)
    _reported_version: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.serve is not None and self.base_url is not None:
            raise ValueError("`serve` starts servers and `base_url` names running ones; remove one")
        if self.frames_as is not None and self.frames_as not in self.endpoint_profile.frames_as:
            ways = ", ".join(self.endpoint_profile.frames_as)
            raise ValueError(
                f"profile {self.profile} does not take frames as {self.frames_as}; it takes: {ways}"
            )
        if self.audio and not self.endpoint_profile.takes_audio:
            takers = ", ".join(name for name, profile in PROFILES.items() if profile.takes_audio)
            raise ValueError(f"profile {self.profile} does not take audio; these do: {takers}")
        return self

    @property
    def identity(self) -> Mapping[str, object]:
        """The values that can change an answer. One model under two names is two models."""
        return {
            "name": self.name,
            "kind": self.kind,
            "model": self.model or self.name,
            "revision": self.revision,
            "profile": self.profile,
            "frames_as": self.sends_frames_as.in_fingerprints,
            "image_detail": self.image_detail,
            "extra_body": self.extra_body,
            "audio": self.audio,
            **({} if self.engine_version is None else {"engine_version": self.engine_version}),
            **({} if self.serve is None else {"serve": self.serve.identity}),
            **({} if self.server is None else {"server": self.server}),
        }

    @property
    def server(self) -> str | None:
        """Hash of the server in the identity, or None for the first server that was seen."""
        return self._server

    def with_server(self, server: str | None) -> Self:
        """This model with the hash of a server in its identity, or without one."""
        changed = self.model_copy()
        changed._server = server
        return changed

    @property
    def endpoint(self) -> str:
        """The URL of the endpoint, or those of all endpoints, for messages."""
        return ", ".join(self._urls)

    @property
    def members(self) -> "tuple[EndpointSpec, ...]":
        """One spec for each endpoint of this model, in the order of the entry."""
        if self.base_url is None or isinstance(self.base_url, str):
            return (self,)
        return tuple(self.model_copy(update={"base_url": url}) for url in self.base_url)

    def with_weights(self, name: str, weights: str) -> Self | None:
        if self.serve is None or "weights" not in type(self.serve).model_fields:
            return None
        serve = self.serve.model_copy(update={"weights": weights})
        # Rules depend on the servers' name for the model, so it stays.
        return self.model_copy(update={"name": name, "model": self.served_name, "serve": serve})

    def served_at(self, urls: Sequence[str], name: str, logs: Path) -> Self:
        """This model at the URLs of its servers, which know it as `name`, with a folder of logs."""
        served = self.model_copy(update={"base_url": tuple(urls)})
        served._served_name, served._logs = name, logs
        return served

    @property
    def logs(self) -> Path | None:
        """The folder of the logs of servers that were started, or None."""
        return self._logs

    @property
    def known_version(self) -> str | None:
        """The version of the engine that its server has reported, or that the entry states."""
        return self._reported_version or self.engine_version

    def with_version(self, reported: str) -> Self:
        """This model at a server that reports this version of its engine."""
        changed = self.model_copy()
        changed._reported_version = reported
        return changed

    @property
    def reports_server(self) -> bool:
        """True if the server of the endpoint may report what it is."""
        return self.serve is not None or bool(self.endpoint_profile.reports)

    def reported_server(self) -> ServerIdentity | None:
        """Reported facts, or None. Raises ModelError for a missing key or endpoints that differ."""
        if self.base_url is None or not self.endpoint_profile.reports:
            return None
        key = self.api_key(os.environ)
        with ThreadPoolExecutor(len(self._urls)) as threads:
            reports = threads.map(
                lambda url: reported_identity(url, self.profile, self.served_name, key), self._urls
            )
            merged = ServerIdentity()
            for url, report in zip(self._urls, reports, strict=True):
                identity = report or ServerIdentity()
                if different := merged.differences(identity):
                    raise ModelError(
                        f"model {self.name}: its endpoints are not equal: {url} reports "
                        f"{shown_differences(different)}; serve the same model at all of them"
                    )
                merged = merged.completed_by(identity)
        return merged if merged.known else None

    @property
    def _urls(self) -> tuple[str, ...]:
        if self.base_url is None:
            return (OPENAI_URL,) if self.serve is None else (f"serve://{self.name}",)
        return (self.base_url,) if isinstance(self.base_url, str) else self.base_url

    @property
    def url(self) -> str:
        return self._urls[0]

    @property
    def key_variables(self) -> tuple[str, ...]:
        if self.api_key_env is not None:
            return (self.api_key_env,)
        return ("OPENAI_API_KEY",) if self.base_url is None and self.serve is None else ()

    @property
    def programs(self) -> tuple[str, ...]:
        return () if self.serve is None else self.serve.programs

    @property
    def shared_resources(self) -> tuple[str, ...]:
        # Servers that a run starts are locked until the run ends.
        return () if self.serve is not None else tuple(sorted(self._urls))

    @property
    def served_name(self) -> str:
        """The name that the endpoint uses for the model."""
        return self._served_name or self.model or self.name

    @property
    def endpoint_profile(self) -> EndpointProfile:
        return PROFILES[self.profile]

    @property
    def sends_frames_as(self) -> FramesAs:
        return self.frames_as or self.endpoint_profile.frames_as[0]

    @property
    def sees_frame_times(self) -> bool:
        return self.sends_frames_as in (FramesAs.FRAME_SEQUENCE, FramesAs.VIDEO_FILE)

    @property
    def reads_video(self) -> bool:
        return self.sends_frames_as is FramesAs.VIDEO_FILE

    @property
    def hears_audio(self) -> bool:
        return self.audio

    @property
    def takes_history(self) -> bool:
        return type(self) is EndpointSpec  # the clients of other packages may send one question

    @property
    def request_schedule(self) -> Schedule:
        return self.schedule or self.endpoint_profile.schedule

    @property
    def costs_money(self) -> bool:
        if self.is_paid is not None:
            return self.is_paid
        return self.prices is not None or self.endpoint_profile.is_paid

    @property
    def counts_texts(self) -> bool:
        """True if texts are counted. With an approximate rule, that would show no frames."""
        family = token_rules.family_of(self.token_family)
        if self.tokens_per_frame is None and not (family and family.is_exact):
            return False
        if self.count_texts is not None:
            return self.count_texts
        return not self.costs_money and self.limits.requests_per_minute is None

    @property
    def tariff(self) -> Tariff:
        return Tariff(
            model=self.served_name,
            base_url=self.url,
            prices=self.prices,
            service_tier=self.service_tier,
        )

    @property
    def token_family(self) -> str:
        """The family or name of the model by which prompt tokens are counted."""
        of_weights = () if self.serve is None else self.serve.families
        names = filter(None, (self.family, *of_weights))
        return next(filter(token_rules.family_of, names), self.served_name)

    def frame_tokens(
        self, size: tuple[int, int], frames: int = 1, picture: PictureSpec | None = None
    ) -> int | None:
        """Prompt tokens of all `frames` frames of `size` (width, height), or None if unknown."""
        if self.tokens_per_frame is not None:
            return frames * self.tokens_per_frame
        if self.serve is not None and self.serve.prunes_videos and self.sees_frame_times:
            return None
        if picture is not None and not self.reads_video:
            size = picture.size(*size, frames)
        return token_rules.frame_tokens(
            self.token_family,
            size,
            frames,
            image_detail=self.image_detail,
            frames_as=self.sends_frames_as,
            limits=None if picture is None else picture.patches,
        )

    def pixel_problem(self, size: tuple[int, int], frames: int, picture: PictureSpec) -> str | None:
        """The reason why an unchanged server rejects `frames` frames of `size`, or None.

        vLLM counts 4 bytes per pixel of a picture, and 3 of a frame that it takes from a video.
        """
        profile, release = self.endpoint_profile, release_of(self.known_version)
        limit = profile.max_decoded_bytes
        if limit is None or self.serve or (release and release < profile.max_decoded_since):
            return None
        width, height = size if self.reads_video else picture.size(*size, frames)
        pixel_bytes = 3 if self.reads_video else 4
        if frames * width * height * pixel_bytes <= limit:
            return None
        return (
            f"{frames} frames of {width} × {height} pixels have more than {limit / 2**20:.0f} MiB, "
            "which vLLM rejects from 0.33 on; start it with VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES=0, "
            "or choose fewer or smaller frames"
        )

    def tokens_of(self, frames: FrameSet) -> int | None:
        """Prompt tokens of the frames of a request, or None if unknown."""
        shown = frames.frames
        if not shown:
            return 0
        if self.reads_video and (video := frames.video) is not None:
            return self.frame_tokens(video.size, len(shown), video.sampling.picture)
        return self.frame_tokens((shown[0].width, shown[0].height), len(shown))

    def frame_times(self, seconds: Sequence[float]) -> Sequence[str]:
        """The texts that the endpoint adds to the frames of a video, shown at these times (s)."""
        if not self.sees_frame_times:
            return ()
        return token_rules.frame_times(self.token_family, seconds)

    def served_models(self) -> list[str] | None:
        """Names of the served models, or None without a list. Raises ModelError if it is down."""
        if self.base_url is None and self.serve is not None:
            return None
        return sorted({served.id for served in self._listed(os.environ)})

    def context_tokens(self, environment: Mapping[str, str] = os.environ) -> int | None:
        """Tokens that a prompt can have at most, or None if unknown. May ask the endpoint."""
        if self.max_model_len is not None or not self.endpoint_profile.reports_context:
            return self.max_model_len
        try:
            listed = self._listed(environment)
        except ModelError:
            return None
        # An engine with one model accepts any name for it.
        is_alone = len({served.id for served in listed}) == 1
        contexts = [s.context_tokens for s in listed if is_alone or s.id == self.served_name]
        return min((context for context in contexts if context is not None), default=None)

    def _listed(self, environment: Mapping[str, str]) -> list[ServedModel]:
        key = self.api_key(environment)
        listed: list[ServedModel] = []
        errors = []
        for url in self._urls:
            try:
                listed += list_models(url, key)
            except ModelError as error:
                errors.append(error)
        if len(errors) == len(self._urls):
            raise ModelError(f"model {self.name}: {errors[0]}") from errors[0]
        return listed

    def api_key(self, environment: Mapping[str, str]) -> str | None:
        """The endpoint's key, or None for no variable. Raises ModelError if it cannot be a key."""
        if not self.key_variables:
            return None
        (variable,) = self.key_variables
        where = f"model {self.name}: the environment variable {variable}"
        key = environment.get(variable, "").strip()
        if not key:
            raise ModelError(
                f"{where} is not set; set it to the endpoint's key (`export {variable}=…`) and run "
                "again"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{where} contains a line break or another character that no key has; set it to "
                "the endpoint's key and run again"
            )
        return key
