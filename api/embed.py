"""Makes what the server shows of the contract: embed.py openapi.yaml FOLDER writes openapi.json, docs.html (a page
without a script or anything from elsewhere) and docs.csp (its Content-Security-Policy: its own style sheet, by hash).
"""

import base64
import hashlib
import html
import json
import re
import sys
from pathlib import Path

import yaml

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h2{margin-top:3rem;border-bottom:1px solid #ccc}h3{margin:2.2rem 0 .3rem;font-size:1.05rem}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f3f3f0;border-radius:3px}code{padding:.1em .25em}
pre{padding:.7rem;overflow-x:auto}table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-bottom:1px solid #e5e5e0}
.method{display:inline-block;min-width:4.5rem;font-weight:600}.scope{color:#666;font-size:.9rem}
@media(prefers-color-scheme:dark){body{color:#e8e8e4;background:#161616}code,pre{background:#262624}
td,th{border-color:#333}a{color:#8ab4ff}.scope{color:#aaa}}
"""
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")


def text(value):
    """Escaped, with `code` marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(str(value)))


class Page:
    def __init__(self, document):
        self.document = document

    def resolve(self, value):
        """Follows a $ref of this document."""
        while isinstance(value, dict) and "$ref" in value:
            target = self.document
            for part in value["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            value = target
        return value

    def type_of(self, schema):
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return f'<a href="#{html.escape(name)}">{html.escape(name)}</a>'
        if "oneOf" in schema:
            return " or ".join(self.type_of(choice) for choice in schema["oneOf"] if choice.get("type") != "null")
        kinds = schema.get("type", "any")
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
        words = " or ".join(kinds)
        if "array" in kinds and "items" in schema:
            words += " of " + self.type_of(schema["items"])
        if "enum" in schema:
            words += ": " + ", ".join(f"<code>{html.escape(str(v))}</code>" for v in schema["enum"] if v is not None)
        bounds = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("exclusiveMinimum", "above"),
                                                            ("maximum", "to")) if key in schema]
        return words + (" " + html.escape(" ".join(bounds)) if bounds else "")

    def fields(self, schema):
        required = schema.get("required", [])
        rows = []
        for name, field in schema.get("properties", {}).items():
            mark = "" if name in required else " <small>optional</small>"
            note = text(self.resolve(field).get("description", "") if "$ref" not in field else "")
            rows.append(f"<tr><td><code>{html.escape(name)}</code>{mark}</td><td>{self.type_of(field)}</td>"
                        f"<td>{note}</td></tr>")
        return f"<table>{''.join(rows)}</table>" if rows else ""

    def parameters(self, operation):
        rows = []
        for parameter in map(self.resolve, operation.get("parameters", [])):
            rows.append(f"<tr><td><code>{html.escape(parameter['name'])}</code></td><td>{parameter['in']}</td>"
                        f"<td>{self.type_of(parameter['schema'])}</td><td>{text(parameter['description'])}</td></tr>")
        return f"<table>{''.join(rows)}</table>" if rows else ""

    def contents(self, title, contents):
        parts = []
        for kind, content in contents.items():
            schema = content.get("schema", {})
            name = self.type_of(schema) if schema.get("format") != "binary" else "bytes"
            parts.append(f"<p>{title} <code>{html.escape(kind)}</code>: {name}</p>")
            if "example" in content:
                example = content["example"]
                shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
                parts.append(f"<pre>{html.escape(shown)}</pre>")
        return "".join(parts)

    def operation(self, path, method, operation):
        scope = operation["x-caisson-scope"]
        parts = [f'<h3 id="{operation["operationId"]}"><span class="method">{method.upper()}</span> '
                 f"<code>{html.escape(path)}</code></h3>",
                 f'<p>{text(operation["summary"])}. <span class="scope">Scope: {scope}</span></p>']
        if "description" in operation:
            parts.append(f"<p>{text(operation['description'])}</p>")
        parts.append(self.parameters(operation))
        if "requestBody" in operation:
            parts.append(self.contents("Body", operation["requestBody"]["content"]))
        failures = []
        for status, response in operation["responses"].items():
            answer = self.resolve(response)
            if status.isdigit() and int(status) >= 400:
                failures.append(f"<code>{status}</code>")
                continue
            parts.append(f"<p><strong>{status}</strong> {text(answer['description'])}</p>")
            parts.append(self.contents("Answer", answer.get("content", {})))
        parts.append(f"<p>Errors: {', '.join(failures)}</p>")
        return "".join(parts)

    def render(self):
        document = self.document
        info = document["info"]
        parts = [f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
                 f"<title>{html.escape(info['title'])} API</title><style>{STYLE}</style>",
                 f"<h1>{html.escape(info['title'])} API</h1><p>{text(info['description'])}</p>",
                 '<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p><ul>']
        parts += [f'<li><a href="#tag-{tag["name"]}">{tag["name"]}</a>: {text(tag["description"])}'
                  for tag in document["tags"]]
        parts.append('<li><a href="#errors">errors</a><li><a href="#schemas">schemas</a></ul>')
        for tag in document["tags"]:
            parts.append(f'<h2 id="tag-{tag["name"]}">{tag["name"]}</h2>')
            for path, item in document["paths"].items():
                parts += [self.operation(path, method, item[method]) for method in METHODS
                          if method in item and tag["name"] in item[method]["tags"]]
        parts.append('<h2 id="errors">errors</h2>')
        for name, response in document["components"]["responses"].items():
            parts.append(f"<h3>{name}</h3><p>{text(response['description'])}</p>")
            parts.append(self.contents("Answer", response["content"]))
        parts.append('<h2 id="schemas">schemas</h2>')
        for name, schema in document["components"]["schemas"].items():
            parts.append(f'<h3 id="{name}">{name}</h3>')
            if "description" in schema:
                parts.append(f"<p>{text(schema['description'])}</p>")
            parts.append(self.fields(schema))
        return "\n".join(parts) + "\n"


def main(source, folder):
    document = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    folder = Path(folder)
    (folder / "openapi.json").write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n",
                                         encoding="utf-8")
    (folder / "docs.html").write_text(Page(document).render(), encoding="utf-8")
    (folder / "docs.csp").write_text(policy, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
