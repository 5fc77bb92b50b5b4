import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Command, Option } from 'commander';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createProgram, runProgram } from './program.ts';

interface Schema {
  readonly $ref?: string;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
}

const { paths, components } = JSON.parse(
  readFileSync(new URL('../../../control-plane/openapi.json', import.meta.url), 'utf8'),
);

const IN_JSON = Object.fromEntries(
  ['user', 'team', 'project', 'env', 'namespace', 'workload', 'labels'].map((name) => [
    `attribution.${name}`,
    'in the JSON of --attribution',
  ]),
);

/** Fields that no option sets, by operation, and why. */
const WITHOUT_OPTION: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  explainName: IN_JSON,
  explainProfile: IN_JSON,
  createKey: { managed_by: 'only `apply` issues keys for files' },
  createWebhook: {
    enabled: 'a new webhook is enabled; `webhooks disable`',
    secret: 'no option takes a secret; the service makes one',
  },
  putConnectorPrice: {
    ...Object.fromEntries(
      fieldsOf({ $ref: 'NewPrice' })
        .filter((name) => !/^(input|output|cache_read)_price(\.|$)/.test(name))
        .map((name) => [name, 'whole prices go in a file for `apply`']),
    ),
  },
};
/** Writes that are no command of their own. */
const WITHOUT_COMMAND: Readonly<Record<string, string>> = {
  putCatalogModel: '`apply` and `catalog import`',
  updateCatalogModel: '`apply` and `catalog import`',
  createCatalogPrice: '`apply` and `catalog import`',
  applyPlan: '`apply` and `catalog import`',
};

function resolved(schema: Schema): Schema {
  const own = schema.anyOf?.[0] ?? schema;
  return own.$ref ? resolved(components.schemas[own.$ref.split('/').at(-1) ?? '']) : own;
}

/** The fields of a body; those of an object are `constraints.min_score`. */
function fieldsOf(body: Schema): string[] {
  return Object.entries(resolved(body).properties ?? {}).flatMap(([name, schema]) => {
    const inner = Object.keys(resolved(schema).properties ?? {});
    return inner.length > 0 ? inner.map((one) => `${name}.${one}`) : [name];
  });
}

interface Write {
  readonly id: string;
  readonly fields: readonly string[];
  readonly pattern: RegExp;
}
const WRITES: readonly Write[] = Object.entries(paths as Record<string, Record<string, never>>).flatMap(
  ([path, methods]) =>
    Object.entries(methods)
      .filter(([, one]: [string, { requestBody?: object }]) => path.startsWith('/api/') && one.requestBody)
      .map(([method, one]: [string, { operationId: string; requestBody: never }]) => ({
        id: one.operationId,
        fields: fieldsOf(
          (one.requestBody as { content: Record<string, { schema: Schema }> }).content['application/json']
            ?.schema ?? {},
        ),
        pattern: new RegExp(`^${method} ${path.replace(/\{\w+\}/g, '[^/]+')}$`, 'i'),
      })),
);

let server: Server;
let url: string;
let writes = 0;
const sent = new Map<string, Set<string>>();

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const call = `${request.method} ${request.url?.split('?')[0]}`;
    const write = WRITES.find(({ pattern }) => pattern.test(call));
    if (write) {
      writes += 1;
      const names = sent.get(write.id) ?? new Set();
      sent.set(write.id, names);
      for (const [name, value] of Object.entries(JSON.parse(text || '{}'))) {
        names.add(name);
        const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
        if (isObject) for (const member of Object.keys(value)) names.add(`${name}.${member}`);
      }
    }
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"auth":{"kind":"oauth"},"ok":true}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

const cli = () => ({
  env: { WEIGHBRIDGE_URL: url, WEIGHBRIDGE_KEY: 'sk-svc-secret', VARIABLE: 'secret' },
  version: '1.2.3',
  out: () => {},
  err: () => {},
  readFile: async () => 'secret',
  writeFile: async () => {},
  now: () => new Date('2026-11-20T10:00:00Z'),
});

const TEAM = 'team_01kaxjq8e3f0mvd1m0n5g8q4zz';
/** One of these is a value of any option. */
const VALUES = ['5', 'VARIABLE', 'env:VARIABLE', '30d', 'a/b=c', 'policy:60', 'prf_1,pol_1', '{}', TEAM];
const LOCAL = new Set([
  'up',
  'apply',
  'export',
  'import',
  'connect',
  'doctor',
  'migrate',
  'spool',
  'catalog',
  'spend',
]);

function* commandsOf(
  command: Command,
  path: readonly string[] = [],
): Generator<[readonly string[], Command]> {
  for (const inner of command.commands) {
    if (path.length === 0 && LOCAL.has(inner.name())) continue;
    if (inner.commands.length === 0) yield [[...path, inner.name()], inner];
    yield* commandsOf(inner, [...path, inner.name()]);
  }
}

/** What the option may be given. */
function* given(option: Option): Generator<readonly string[]> {
  const flag = option.long ?? '';
  if (!option.required && !option.optional) yield [flag];
  for (const value of option.argChoices ?? (option.required ? VALUES : [])) yield [flag, value];
}

/** What a command needs besides its arguments and mandatory options. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  'overrides create': ['--for', '7d'],
  'connectors create': ['--auth', 'oauth'],
};

/** The lines that a command is called with, without its other options. */
function linesOf(path: readonly string[], command: Command): string[][] {
  const needed = command.options
    .filter(({ mandatory }) => mandatory)
    .flatMap((option) => [...given(option)][0] ?? []);
  const more = [...needed, ...(NEEDED[path.join(' ')] ?? [])];
  const texts = path.includes('explain') ? ['a-name', 'prf_1'] : [TEAM];
  return texts.map((text) => [...path, ...command.registeredArguments.map(() => text), ...more]);
}

/** Calls every command that sends a body, with every option. */
async function callAll(): Promise<void> {
  const program = createProgram(cli());
  const run = (args: readonly string[]) => runProgram(program, args, cli());
  for (const [path, command] of commandsOf(program)) {
    for (const line of linesOf(path, command)) {
      const before = writes;
      // One that succeeds without a body takes none.
      if ((await run(line)) === 0 && writes === before) continue;
      for (const option of command.options) {
        const others =
          option.long === '--until' ? line.filter((word) => word !== '--for' && word !== '7d') : line;
        for (const one of given(option)) if ((await run([...others, ...one])) === 0) break;
      }
    }
  }
}

it('each field of a body that the API takes has an option, or a reason why not', async () => {
  await callAll();
  const missing = WRITES.filter(({ id }) => !(id in WITHOUT_COMMAND)).flatMap(({ id, fields }) => {
    const names = sent.get(id) ?? new Set();
    return fields
      .filter((name) => !names.has(name) && !(name in (WITHOUT_OPTION[id] ?? {})))
      .map((name) => `${id}: ${name}`);
  });
  expect(missing).toEqual([]);
});

it('no command has an option with the name of one of the program, which would take its value', () => {
  const program = createProgram(cli());
  const names = new Set(program.options.map(({ long }) => long));
  const clashes = [...commandsOf(program)].flatMap(([path, { options }]) =>
    options.filter(({ long }) => names.has(long)).map(({ long }) => `${path.join(' ')} ${long}`),
  );
  expect(clashes).toEqual([]);
});

it('every option says what it does', () => {
  const silent = [...commandsOf(createProgram(cli()))].flatMap(([path, { options }]) =>
    options
      .filter(({ description }) => description.trim().length < 3)
      .map(({ long }) => `${path.join(' ')} ${long}`),
  );
  expect(silent).toEqual([]);
});

it('no reason is about a field or an operation that does not exist, or that has an option', () => {
  const stale = [
    ...Object.entries(WITHOUT_OPTION).flatMap(([id, fields]) => {
      const write = WRITES.find((one) => one.id === id);
      return Object.keys(fields)
        .filter((name) => !write?.fields.includes(name) || sent.get(id)?.has(name))
        .map((name) => `${id}: ${name}`);
    }),
    ...Object.keys(WITHOUT_COMMAND).filter((id) => !WRITES.some((one) => one.id === id) || sent.has(id)),
  ];
  expect(stale).toEqual([]);
});
