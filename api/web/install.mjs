// Fetches exactly what package-lock.json names, every file checked against its hash. The npm beside
// this Node does it, so nothing else need be installed.
import { spawnSync } from "node:child_process";
import path from "node:path";

const npm = path.join(path.dirname(process.execPath), "..", "lib", "node_modules", "npm", "bin", "npm-cli.js");
const done = spawnSync(process.execPath, [npm, "ci", "--loglevel=error"], {
  stdio: ["ignore", "ignore", "inherit"],
});
process.exit(done.status ?? 1);
