import { readFileSync } from 'node:fs';
import { readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { createProgram, runProgram } from './commands/program.ts';
import type { WriteOptions } from './session/session.ts';
import { UsageError } from './session/usageError.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const print = (line: string) => process.stdout.write(`${line}\n`);

const cli = {
  env: process.env,
  version,
  out: print,
  err: (line: string) => process.stderr.write(`${line}\n`),
  readFile: (path: string) => (path === '-' ? text(process.stdin) : readFile(path, 'utf8')),
  listFolder: async (path: string) => {
    const isFolder = (await stat(path).catch(() => undefined))?.isDirectory();
    return isFolder ? await readdir(path) : undefined;
  },
  writeFile: async (path: string, content: string | Uint8Array, options: WriteOptions = {}) => {
    const { mode = 0o666, isNew = false, isWhole = false } = options;
    const part = isWhole ? `${path}.part` : path;
    await writeFile(part, content, { mode, flag: isNew ? 'wx' : 'w' });
    if (isWhole) await rename(part, path);
  },
  now: () => new Date(),
};

// A reader such as `head` ends when it has enough. The command finishes all the same.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

const args = process.argv.slice(2);
const program = createProgram(cli, args);
program
  .command('up')
  .description('run everything in one process: the operator API, inference, metering and Postgres')
  .addHelpText(
    'after',
    '\nSettings come from the environment; docs/configuration.md lists them.\n\nExample:\n  PORT=9000 weighbridge up',
  )
  .option('--demo', 'show a company of three teams, with a month of made-up data, on mocks of vendors')
  .option('--exit', 'with --demo: end after the demonstration')
  .action(async (options: { readonly demo?: boolean; readonly exit?: boolean }) => {
    if (options.exit && !options.demo) throw new UsageError('--exit needs --demo');
    // Loaded only here, so that the other commands start faster.
    const { runService } = await import('@weighbridge/runtime');
    const { up } = await import('./up/up.ts');
    process.exit(
      await runService('weighbridge', async (context) => {
        const { prepareDemo } = await import('./demo/demo.ts');
        const given = { env: process.env, version, print };
        const demo = options.demo && (await prepareDemo({ ...given, exits: options.exit === true }));
        await up({ ...given, ...(demo && { demo, env: demo.env }) }, context);
      }),
    );
  });

const EXIT_AFTER_MS = 1_000;

/** A connection that a command gave up, to a server that never answers, would keep the process. */
function exitWhenWritten(): void {
  if (process.stdout.writableLength + process.stderr.writableLength === 0) process.exit();
  setTimeout(exitWhenWritten, EXIT_AFTER_MS).unref();
}

process.exitCode = await runProgram(program, args, cli);
setTimeout(exitWhenWritten, EXIT_AFTER_MS).unref();
