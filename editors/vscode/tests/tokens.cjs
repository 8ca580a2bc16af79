// Prints, for every line of the given specs, the tokens that an editor colours: start, end, scope.
const fs = require("node:fs");
const path = require("node:path");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");
const oniguruma = require("vscode-oniguruma");

const GRAMMAR = path.join(__dirname, "..", "..", "..", "grammar", "mstar.tmLanguage.json");

async function main(specs) {
  const wasm = require.resolve("vscode-oniguruma/release/onig.wasm");
  await oniguruma.loadWASM(fs.readFileSync(wasm).buffer);
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(GRAMMAR, "utf8"), GRAMMAR),
  });
  const grammar = await registry.loadGrammar("source.mstar");
  const tokens = {};
  for (const spec of specs) {
    let state = INITIAL;
    tokens[spec] = fs.readFileSync(spec, "utf8").split("\n").map((line) => {
      const found = grammar.tokenizeLine(line, state);
      state = found.ruleStack;
      return found.tokens.map((t) => [t.startIndex, t.endIndex, t.scopes[t.scopes.length - 1]]);
    });
  }
  process.stdout.write(JSON.stringify(tokens));
}

main(process.argv.slice(2));
