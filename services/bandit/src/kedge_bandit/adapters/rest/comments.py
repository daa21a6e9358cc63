"""Find the comments of proto files by the full name of what they describe."""

from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message


def comments_of(files: FileDescriptorSet | None) -> Mapping[str, str]:
    """Map full names such as ``kedge.bandit.v1.Policy.name`` to their comments.

    Args:
        files: proto files compiled with source info; None has no comments.

    Returns:
        Comments with their line breaks kept. A value of an enum is found under the enum's name:
        ``package.Mode.MODE_FROZEN``.
    """
    if files is None:
        return {}
    return {name: text for file in files.file for name, text in _comments_in(file)}


def _comments_in(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    for location in file.source_code_info.location:
        text = (location.leading_comments or location.trailing_comments).strip()
        if text and (name := _name_at(file, location.path)):
            yield name, "\n".join(line.strip() for line in text.splitlines())


def _name_at(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Follow a source path, pairs of field number and index, from the file to a named element; "" for other places."""
    node: Message = file
    names = [file.package]
    if len(path) % 2:
        return ""
    for number, index in zip(path[::2], path[1::2], strict=True):
        field = node.DESCRIPTOR.fields_by_number.get(number)
        if field is None or field.message_type is None or not field.is_repeated:
            return ""
        node = getattr(node, field.name)[index]
        if "name" not in node.DESCRIPTOR.fields_by_name:
            return ""
        names.append(str(getattr(node, "name")))  # noqa: B009 - every named descriptor has it, Message does not say so
    return ".".join(name for name in names if name)
