// Builds src/ into dist/: one page, its script and style under names that carry their hashes,
// and a list of the libraries in it with their licences.
import { readFile, rm, mkdir, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import path from "node:path";
import { build } from "esbuild";

const OUT = "dist";

await rm(OUT, { recursive: true, force: true });
await mkdir(OUT);
const { metafile } = await build({
  entryPoints: ["src/main.tsx"],
  outdir: OUT,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  legalComments: "none",
  metafile: true,
});

const icon = await readFile("src/icon.svg");
const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8).toUpperCase()}.svg`;
await writeFile(path.join(OUT, iconName), icon);

const outputs = Object.entries(metafile.outputs);
const [script, { cssBundle }] = outputs.find(([, each]) => each.entryPoint === "src/main.tsx");
const page = (await readFile("src/index.html", "utf8"))
  .replace("{script}", path.basename(script))
  .replace("{style}", path.basename(cssBundle))
  .replace("{icon}", iconName);
await writeFile(path.join(OUT, "index.html"), page);

// The licences of the libraries ask that their notices travel with them.
const packages = new Set(
  Object.keys(metafile.inputs)
    .filter((input) => input.startsWith("node_modules/"))
    .map((input) => input.split("/").slice(1, input.startsWith("node_modules/@") ? 3 : 2).join("/")),
);
const notices = await Promise.all(
  [...packages].sort().map(async (name) => {
    const folder = path.join("node_modules", name);
    const { version, license } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const text = await readFile(path.join(folder, "LICENSE"), "utf8");
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  }),
);
await writeFile(path.join(OUT, "licences.txt"), notices.join(`\n${"-".repeat(72)}\n\n`));

const bytes = outputs.reduce((sum, [, each]) => sum + each.bytes, 0);
console.log(`console: ${outputs.length + 3} files, ${Math.round(bytes / 1024)} KiB`);
