// One Pyodide that reads {"code"} lines and answers {"out"} or {"error"}: no tools, no SUBMIT.
import process from "node:process";
import readline from "node:readline";
import pyodideModule from "npm:pyodide@0.29.4/pyodide.js";

const pyodide = await pyodideModule.loadPyodide();
let out = [];
pyodide.setStdout({ batched: (line) => out.push(line) });

for await (const line of readline.createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  out = [];
  try {
    await pyodide.runPythonAsync(message.code);
    console.log(JSON.stringify({ out: out.join("\n") }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error) }));
  }
}
