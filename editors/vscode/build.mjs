// Bundles the extension into dist/, and takes the grammar from where it is written.
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");

mkdirSync(join(here, "syntaxes"), { recursive: true });
copyFileSync(
  join(root, "grammar", "mstar.tmLanguage.json"),
  join(here, "syntaxes", "mstar.tmLanguage.json"),
);
copyFileSync(join(root, "LICENSE"), join(here, "LICENSE"));

await build({
  entryPoints: [join(here, "src", "extension.ts")],
  outfile: join(here, "dist", "extension.js"),
  bundle: true,
  minify: true,
  platform: "node",
  target: "node18",
  format: "cjs",
  external: ["vscode"],
});
