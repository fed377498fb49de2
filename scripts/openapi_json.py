#!/usr/bin/env python3
"""Writes openapi.yaml as JSON, for the build: openapi_json.py openapi.yaml build/openapi.json

Members keep their order. What YAML can say and JSON cannot (a key twice, keys that are no text, dates) is an error here, not
a surprise in a client."""
import json
import os
import re
import sys

import yaml


class Loader(yaml.SafeLoader):
    """Words stay words: dates, and yes, no, on, off are texts, as in JSON and YAML 1.2."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rsplit(":", 1)[1] not in ("timestamp", "bool")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def mapping(loader, node):
    loader.flatten_mapping(node)
    members = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is no text: quote it", key_node.start_mark)
        if key in members:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} comes twice", key_node.start_mark)
        members[key] = loader.construct_object(value_node, deep=True)
    return members


Loader.add_constructor("tag:yaml.org,2002:map", mapping)


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        try:
            document = yaml.load(file, Loader)
        except yaml.YAMLError as error:
            sys.exit(f"{source}: {error}")
    with open(target + ".part", "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        file.write("\n")
    os.replace(target + ".part", target)


main()
