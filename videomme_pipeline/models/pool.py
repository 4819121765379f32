"""A model that several equal endpoints serve. `collect` chooses the endpoint of each video."""

from collections.abc import Mapping

from videomme_pipeline.models.video_llm import Reply, Request, VideoLLM


class ModelPool:
    """The models of the endpoints of one entry, by URL."""

    def __init__(self, members: Mapping[str, VideoLLM]) -> None:
        self.members = members
        first = self._first = next(iter(members.values()))
        self.name, self.identity = first.name, first.identity
        self.needs_frames = first.needs_frames

    async def respond(self, request: Request) -> Reply:
        """Return the answer of the first endpoint. `collect` asks the members instead."""
        return await self._first.respond(request)

    async def close(self) -> None:
        for member in self.members.values():
            await member.close()


def members_of(model: VideoLLM) -> Mapping[str, VideoLLM]:
    """The models of a pool by URL, or `model` itself by its name."""
    return model.members if isinstance(model, ModelPool) else {model.name: model}
