"""List the measurements with the first line of their docstrings: `python -m perf`."""

import ast
from pathlib import Path


def main() -> None:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstring = ast.get_docstring(tree)
        runs = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if docstring and runs and path.stem != "__main__":
            print(f"python -m perf.{path.stem:20} {docstring.splitlines()[0]}")


if __name__ == "__main__":
    main()
