"""The client and the contract say the same: a route, a field or an error that only one of them has fails here."""

import ast
import datetime
import os
import subprocess
import sys
import typing
import unittest
from pathlib import Path

import yaml

SDK = Path(__file__).resolve().parent.parent
ROOT = Path(os.environ.get("CAISSON_SOURCE", SDK.parent.parent))
sys.path.insert(0, str(SDK / "src"))

import caisson  # noqa: E402
from caisson import _operations as op  # noqa: E402
from caisson import errors, requests  # noqa: E402
from caisson._model import Model, plan_of, without_none  # noqa: E402

DOCUMENT = yaml.safe_load((ROOT / "api/openapi.yaml").read_text(encoding="utf-8"))
OPERATIONS = {one.name: one for one in vars(op).values() if isinstance(one, op.Operation)}
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
# Used in requests, where every field may be left out, and in answers, where all are there.
BOTH_WAYS = {requests.Limits, requests.Budget, requests.Filesystem, requests.NetworkRule, requests.Inject}
PLAIN = {"string": str, "integer": int, "boolean": bool, "number": float, "object": dict, "array": list}


def resolve(value):
    while isinstance(value, dict) and "$ref" in value:
        target = DOCUMENT
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        value = target
    return value


def contract():
    """operationId → (method, path, operation)"""
    return {item[method]["operationId"]: (method.upper(), path, item[method])
            for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item}


class Compare:
    """A schema and a model, down to the last field. What differs is in `complaints`."""

    def __init__(self):
        self.complaints = []
        self.seen = set()

    def model(self, where, schema, kind, answer):
        name = schema.get("$ref", where).rsplit("/", 1)[-1]
        schema = resolve(schema)
        if (name, kind, answer) in self.seen:
            return
        self.seen.add((name, kind, answer))
        plan = plan_of(kind)
        ours, theirs = set(plan.by_json), set(schema.get("properties", {}))
        where = f"{name} / {kind.__name__}"
        for field in sorted(ours - theirs):
            self.complaints.append(f"{where}: {field} is not in the contract")
        for field in sorted(theirs - ours):
            self.complaints.append(f"{where}: {field} is only in the contract")
        required = set(schema.get("required", ()))
        for field in sorted(ours & theirs):
            attribute = plan.by_json[field][0]
            must = attribute in plan.required
            if must != (field in required) and not (kind in BOTH_WAYS and not must):
                self.complaints.append(f"{where}: {field} is {'' if must else 'not '}required in the model only")
            self.value(f"{where}.{field}", schema["properties"][field], plan.hints[attribute], answer,
                       kind in BOTH_WAYS)

    def value(self, where, schema, hint, answer, loose):
        schema, nullable = self.not_null(schema)
        hint, optional = without_none(hint)
        if answer and optional != nullable and not (loose and optional):
            self.complaints.append(f"{where}: None is possible in the {'model' if optional else 'contract'} only")
        if "oneOf" in resolve(schema):
            kinds = {PLAIN[one["type"]] for one in resolve(schema)["oneOf"]}
            if set(typing.get_args(hint)) != kinds:
                self.complaints.append(f"{where}: {hint} in the model, {kinds} in the contract")
            return
        if isinstance(hint, type) and issubclass(hint, Model):
            return self.model(where, schema, hint, answer)
        schema = resolve(schema)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        kind = schema.get("type", "object")
        if origin is typing.Literal:
            wanted = schema.get("enum", [schema.get("const")])
            if set(args) != set(wanted) - {None}:
                self.complaints.append(f"{where}: {sorted(args)} in the model, {wanted} in the contract")
        elif kind == "array":
            if len(args) != 1:
                self.complaints.append(f"{where}: an array in the contract, {hint} in the model")
            else:
                self.value(where + "[]", schema["items"], args[0], answer, loose)
        elif kind == "object":
            if len(args) != 2:
                self.complaints.append(f"{where}: an object in the contract, {hint} in the model")
            elif isinstance(schema.get("additionalProperties"), dict):
                self.value(where + "{}", schema["additionalProperties"], args[1], answer, loose)
        elif schema.get("format") == "date-time":
            if hint is not datetime.datetime:
                self.complaints.append(f"{where}: a time in the contract, {hint} in the model")
        elif hint is not PLAIN[kind] and not (kind == "number" and hint is int):
            self.complaints.append(f"{where}: {kind} in the contract, {hint} in the model")
        if "enum" in schema and kind != "array" and origin is not typing.Literal:
            self.complaints.append(f"{where}: the contract lists its values, the model does not")

    @staticmethod
    def not_null(schema):
        """(the schema without null, whether null was in it)"""
        one_of = schema.get("oneOf")
        if one_of:
            rest = [one for one in one_of if resolve(one).get("type") != "null"]
            return (rest[0] if len(rest) == 1 else {"oneOf": rest}), len(rest) < len(one_of)
        kind = schema.get("type")
        if isinstance(kind, list):
            rest = [one for one in kind if one != "null"]
            return {**schema, "type": rest[0]}, len(rest) < len(kind)
        return schema, False


class Routes(unittest.TestCase):
    def test_the_same_operations(self):
        self.assertEqual(set(OPERATIONS), set(contract()))
        for name, (method, path, operation) in contract().items():
            with self.subTest(operation=name):
                ours = OPERATIONS[name]
                self.assertEqual((ours.method, ours.path), (method, path))
                parameters = [resolve(one) for one in operation.get("parameters", ())]
                self.assertEqual(set(ours.query), {one["name"] for one in parameters if one["in"] == "query"})
                keyed = any(one["name"] == "Idempotency-Key" for one in parameters)
                self.assertEqual(ours.keyed, keyed, "Idempotency-Key")

    def test_every_operation_is_a_method_of_the_client(self):
        used = set()
        for path in (SDK / "src/caisson/_async").glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "op":
                    used.add(node.attr)
        proxies = {name for name, one in vars(op).items() if one in op.PROXIES.values()}
        names = {name for name, one in vars(op).items() if isinstance(one, op.Operation)}
        self.assertIn("PROXIES", used)
        self.assertEqual(names - used - proxies, set())

    def test_the_same_bodies_and_answers(self):
        compare = Compare()
        for name, (_, _, operation) in contract().items():
            ours = OPERATIONS[name]
            self.bodies(compare, name, operation, ours)
            self.answers(compare, name, operation, ours)
        self.assertEqual(compare.complaints, [])
        checked = {name for name, _, _ in compare.seen}
        # Error is compared below.
        self.assertEqual(set(DOCUMENT["components"]["schemas"]) - checked, {"Error"})

    def bodies(self, compare, name, operation, ours):
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            self.assertTrue(isinstance(ours.body, type) and issubclass(ours.body, Model), name)
            compare.model(name, content["application/json"]["schema"], ours.body, answer=False)
        else:
            self.assertIs(ours.body, bytes if content else None, name)

    def answers(self, compare, name, operation, ours):
        responses = {status: resolve(one) for status, one in operation["responses"].items()}
        good = next((one for status, one in responses.items() if status.startswith("2")), None)
        if ours.answer is op.Socket:
            self.assertIn("101", responses, name)
            return
        if good is None:  # a program inside answers
            self.assertIs(ours.answer, bytes, name)
            return
        content = good.get("content", {})
        if isinstance(ours.answer, type) and issubclass(ours.answer, Model):
            compare.model(name, content["application/json"]["schema"], ours.answer, answer=True)
            self.assertEqual(ours.streams, "text/event-stream" in content, name)
        elif ours.answer is op.Events:
            self.assertEqual(set(content), {"text/event-stream"}, name)
        elif ours.answer is op.Nothing:
            self.assertEqual(content, {}, name)
        else:
            schema = next(iter(content.values()))["schema"]
            self.assertEqual(schema["type"], "string", name)
            self.assertEqual(schema.get("format") == "binary", ours.answer is bytes, name)

    def test_the_same_errors(self):
        error = DOCUMENT["components"]["schemas"]["Error"]["properties"]["error"]
        self.assertEqual(set(errors.BY_CODE), set(error["properties"]["code"]["enum"]))
        self.assertEqual(set(error["properties"]), {"code", "message", "details", "request_id"})
        for kind in errors.BY_CODE.values():
            self.assertIn(kind.__name__, errors.__all__)

    def test_a_difference_is_found(self):
        class Undone(Model):
            snapshot: str
            calls: str
            colour: str

        compare = Compare()
        compare.model("undo", DOCUMENT["components"]["schemas"]["Undone"], Undone, answer=True)
        self.assertEqual(len(compare.complaints), 3, compare.complaints)


class Package(unittest.TestCase):
    def test_the_client_for_threads_is_up_to_date(self):
        done = subprocess.run([sys.executable, SDK / "generate_sync.py", "--check"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_name_is_there(self):
        for name in caisson.__all__:
            if name not in caisson._LOCAL_NAMES:
                self.assertIsNotNone(getattr(caisson, name))
        self.assertEqual(set(caisson._ERROR_NAMES), set(errors.__all__))
        with self.assertRaises(AttributeError):
            caisson.nothing_of_the_kind

    def test_the_import_loads_nothing_that_was_not_asked_for(self):
        code = ("import sys, caisson; assert not {'ssl', 'asyncio', 'json'} & set(sys.modules), sys.modules.keys();"
                "caisson.Client; assert 'asyncio' not in sys.modules")
        env = {**os.environ, "PYTHONPATH": str(SDK / "src")}
        subprocess.run([sys.executable, "-S", "-c", code], env=env, timeout=60, check=True)

    def test_a_newer_server_is_understood(self):
        data = {"snapshot": "a", "calls": 1, "left": 2, "new_field": {"x": 1}}
        undone = caisson.models.Undone.from_json(data)
        self.assertEqual(undone.extra, {"new_field": {"x": 1}})
        self.assertEqual(undone.to_json(), data)
        with self.assertRaises(caisson.BadAnswerError):
            caisson.models.Undone.from_json({"snapshot": "a"})

    def test_a_model_is_a_value(self):
        config = caisson.SandboxConfig(name="a")
        self.assertEqual(config.replaced(name="b").name, "b")
        self.assertEqual(config, caisson.SandboxConfig(name="a"))
        with self.assertRaises(AttributeError):
            config.name = "c"
        with self.assertRaises(TypeError):
            caisson.SandboxConfig(colour=1)
        with self.assertRaises(TypeError):
            caisson.NetworkRule()


if __name__ == "__main__":
    unittest.main(verbosity=2)
