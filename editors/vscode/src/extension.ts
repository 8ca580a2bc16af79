// Starts `mstarc lsp` for .mstar files and deployment files, and opens the page of `mstarc show`.
import { execFile } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { LanguageClient, type ServerOptions } from "vscode-languageclient/node";

const run = promisify(execFile);
let client: LanguageClient | undefined;
let started = false;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("mstar.restart", restart),
    vscode.commands.registerCommand("mstar.show", show),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (started && change.affectsConfiguration("mstar.command")) await restart();
    }),
    vscode.workspace.onDidOpenTextDocument(startFor),
  );
  for (const document of vscode.workspace.textDocuments) await startFor(document);
}

// Most YAML is not ours: the server starts with the first spec or deployment that is opened.
async function startFor(document: vscode.TextDocument): Promise<void> {
  const isDeployment =
    document.languageId === "yaml" && /^(?:model|node_groups)[ \t]*:/m.test(document.getText());
  if (started || !(document.languageId === "mstar" || isDeployment)) return;
  started = true;
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function command(): string[] {
  const words = vscode.workspace.getConfiguration("mstar").get<string[]>("command") ?? [];
  return words.length > 0 ? words : ["mstarc"];
}

async function start(): Promise<void> {
  const [program, ...words] = command();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server: ServerOptions = {
    command: program,
    args: [...words, "lsp"],
    options: { cwd: folder },
  };
  client = new LanguageClient("mstar", "mstar", server, {
    documentSelector: [{ language: "mstar" }, { language: "yaml" }],
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    await complain(`The language server did not start: ${reason(error)}`);
  }
}

async function restart(): Promise<void> {
  started = true;
  const before = client;
  client = undefined;
  // One that did not start has nothing to stop.
  await before?.stop().catch(() => undefined);
  await start();
}

async function show(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined || document.languageId !== "mstar") return;
  await document.save();
  const folder = await mkdtemp(join(tmpdir(), "mstar-"));
  const page = join(folder, "request.html");
  const [program, ...words] = command();
  try {
    await run(program, [...words, "show", document.fileName, "--as", "html", "-o", page]);
  } catch (error) {
    await complain(`The spec could not be shown: ${reason(error)}`);
    return;
  }
  await vscode.env.openExternal(vscode.Uri.file(page));
}

async function complain(text: string): Promise<void> {
  const settings = "Open settings";
  const chosen = await vscode.window.showErrorMessage(text, settings);
  if (chosen === settings) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "mstar.command");
  }
}

function reason(error: unknown): string {
  const output = (error as { stdout?: string }).stdout?.trim();
  return output || (error instanceof Error ? error.message : String(error));
}
