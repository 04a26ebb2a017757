#!/usr/bin/env node
// Runs the binary of the package for this platform, which npm installs as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { optionalDependencies } = require("./package.json");

const platform = `mcpproxy-${process.platform}-${process.arch}`;

function findBinary() {
  try {
    return require.resolve(`${platform}/mcpproxy`);
  } catch {
    const built = Object.keys(optionalDependencies).join(", ");
    const known = platform in optionalDependencies;
    console.error(`mcpproxy: The package ${platform} is not installed.`);
    console.error(
      known
        ? "Run `npm install` again without --omit=optional."
        : `It does not exist. Packages exist for: ${built}. Build mcpproxy with Rust instead.`,
    );
    process.exit(1);
  }
}

const child = spawn(findBinary(), process.argv.slice(2), { stdio: "inherit" });

// The gateway stops its servers in order when it gets a signal. So Node passes signals on and waits.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}

child.on("error", (error) => {
  console.error(`mcpproxy: could not start ${child.spawnfile}: ${error.message}`);
  process.exit(1);
});

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
