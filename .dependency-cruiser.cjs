/** The rules of dependency of docs/architecture.md. `pnpm check:boundaries` runs them; checks.all.test.ts plants a violation of each. */
const { readFileSync } = require('node:fs');
const { join } = require('node:path');

/** From the top down: each imports only those below it. */
const DATA_PLANE = [
  ...readFileSync(join(__dirname, 'docs/architecture.md'), 'utf8').matchAll(/^\| `(\w+)\/` +\|/gm),
].map(([, folder]) => folder);
const APPS_BUT_CLI = '^apps/(?!cli/)([^/]+)/';
const CLIENTS_AND_SERVERS = '(pg|kysely|fastify|@grpc/grpc-js)(/|$)';
const SOURCE = '\\.tsx?$';
const IO = '^(node:)?(fs|net|http|https|http2|child_process|dgram|dns|tls|os|worker_threads)(/|$)';
const TEST = '(\\.test\\.ts$|/test/)';
/** Imports nothing, so tests of any package may import it, and `no-test-in-product` keeps it out of the rest. */
const LINEAR_TIME = '^packages/testing/src/linearTime\\.ts$';

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'app-not-to-app',
      comment: 'Apps speak through proto/ only. The command line alone starts them, by their public entry.',
      severity: 'error',
      from: { path: APPS_BUT_CLI },
      to: {
        path: '^(apps/|@weighbridge/(console|control-plane|data-plane|metering|cli)(/|$))',
        pathNot: '^apps/$1/',
      },
    },
    {
      name: 'cli-by-public-entry',
      comment: 'The command line imports an app by its public entries, not by a file inside it.',
      severity: 'error',
      from: { path: '^apps/cli/' },
      to: {
        path: '^apps/(?!cli/)[^/]+/(src|dist)/',
        pathNot: '^apps/[^/]+/(src|dist)/(index|rules)\\.(d\\.)?[jt]s$',
      },
    },
    {
      name: 'package-not-to-app',
      severity: 'error',
      from: { path: '^packages/', pathNot: '^packages/bench/' },
      to: { path: '^(apps/|@weighbridge/(console|control-plane|data-plane|metering|cli)(/|$))' },
    },
    {
      name: 'bench-only-to-what-is-measured',
      comment:
        'What takes a microsecond can only be measured in process: through one entry that says what that is.',
      severity: 'error',
      from: { path: '^packages/bench/' },
      to: {
        path: '^(apps/|@weighbridge/(console|control-plane|data-plane|metering|cli)(/|$))',
        pathNot: '^(@weighbridge/data-plane/measured$|apps/data-plane/(src|dist)/measured\\.(d\\.)?[jt]s$)',
      },
    },
    ...DATA_PLANE.slice(1).map((folder, at) => ({
      name: `data-plane-${folder}-imports-below`,
      comment: 'The folders of the data plane import only those below them in docs/architecture.md.',
      severity: 'error',
      from: { path: `^apps/data-plane/src/${folder}/`, pathNot: TEST },
      to: { path: `^apps/data-plane/src/(${DATA_PLANE.slice(0, at + 1).join('|')})/` },
    })),
    {
      name: 'proxy-loads-no-framework',
      comment:
        'A proxy has a router of its own. What it loads of packages/runtime reaches no Fastify either.',
      severity: 'error',
      from: { path: '^(apps/data-plane/src/|packages/runtime/src/index\\.ts$)', pathNot: TEST },
      to: { path: '(^|node_modules/|@weighbridge/runtime/)fastify(/|$)', reachable: true },
    },
    {
      name: 'product-starts-no-cloud',
      comment:
        'What `up` loads has mock/echo alone: simulators of clouds and identity providers are for tests.',
      severity: 'error',
      from: {
        path: '^(apps/[^/]+/src/|packages/mock-vendor/src/(?!clouds|azure|bedrock|oauth|vertex))',
        pathNot: TEST,
      },
      to: {
        path: '^(@weighbridge/mock-vendor/clouds$|packages/mock-vendor/src/(clouds|azure|bedrock|oauth|vertex))',
      },
    },
    {
      name: 'domain-and-errors-import-nothing-of-ours',
      severity: 'error',
      from: { path: '^packages/(domain|errors)/' },
      to: { path: '^(packages|apps|@weighbridge)/', pathNot: `^packages/$1/|${LINEAR_TIME}` },
    },
    {
      name: 'dialects-imports-domain-only',
      severity: 'error',
      from: { path: '^packages/dialects/' },
      to: {
        path: '^(packages|apps|@weighbridge)/',
        pathNot: `^(packages/(dialects|domain)/|@weighbridge/domain$)|${LINEAR_TIME}`,
      },
    },
    {
      name: 'budget-imports-shapes-only',
      comment: 'A proxy loads it: no SQL, no server, nothing that opens a socket.',
      severity: 'error',
      from: { path: '^packages/budget/' },
      to: {
        path: '^(packages|apps|@weighbridge)/',
        pathNot: '^(packages/(budget|contracts|domain|errors)/|@weighbridge/(contracts|domain|errors)$)',
      },
    },
    {
      name: 'budget-does-no-io',
      severity: 'error',
      from: { path: '^packages/budget/src/', pathNot: TEST },
      to: { dependencyTypes: ['core'], path: IO },
    },
    {
      name: 'state-imports-shapes-only',
      comment:
        'What proxies are sent is read and written without SQL, files and sockets: no proxy loads a client of Postgres.',
      severity: 'error',
      from: { path: '^packages/state/' },
      to: {
        path: '^(packages|apps|@weighbridge)/',
        pathNot:
          '^(packages/(state|budget|contracts|domain|errors)/|@weighbridge/(budget|contracts|domain|errors)$)',
      },
    },
    {
      name: 'state-uses-no-client-or-server',
      severity: 'error',
      from: { path: '^packages/state/' },
      to: { path: `(^|node_modules/)${CLIENTS_AND_SERVERS}` },
    },
    {
      name: 'usage-without-sql-or-servers',
      comment: 'A proxy loads it: what it may import brings no database client and no app.',
      severity: 'error',
      from: { path: '^packages/usage/src/', pathNot: TEST },
      to: {
        path: '^(packages|apps|@weighbridge)/',
        pathNot:
          '^(packages/(usage|bus|contracts|domain|runtime)/|@weighbridge/(bus|contracts|domain|runtime)$)',
      },
    },
    {
      name: 'usage-wire-does-no-io',
      comment: 'Who reads events loads neither the spool nor the bus.',
      severity: 'error',
      from: { path: '^packages/usage/src/(index\\.ts$|event/|signature/)', pathNot: TEST },
      to: {
        path: '^(packages/usage/src/(?!event/|signature/)|packages/(bus|runtime)/|@weighbridge/(bus|runtime)$|(node:)?fs)',
      },
    },
    {
      name: 'domain-does-no-io',
      severity: 'error',
      from: { path: '^packages/(dialects|domain|errors|state)/src/', pathNot: TEST },
      to: { dependencyTypes: ['core'], path: IO },
    },
    {
      name: 'repository-not-to-service-or-routes',
      comment: 'routes → service → repository, never back.',
      severity: 'error',
      from: { path: '\\.repository\\.ts$' },
      to: { path: '\\.(service|routes)\\.ts$' },
    },
    {
      name: 'service-not-to-routes',
      severity: 'error',
      from: { path: '\\.service\\.ts$' },
      to: { path: '\\.routes\\.ts$' },
    },
    {
      name: 'routes-not-to-repository',
      severity: 'error',
      from: { path: '\\.routes\\.ts$' },
      to: { path: '\\.repository\\.ts$' },
    },
    {
      name: 'feature-only-through-its-service',
      comment:
        'Another feature is reached through its service (or its pure rules and types), not its repository or routes.',
      severity: 'error',
      from: { path: '^apps/([^/]+)/src/features/([^/]+)/', pathNot: TEST },
      to: {
        path: '^apps/$1/src/features/[^/]+/.+\\.(repository|routes)\\.ts$',
        pathNot: '^apps/$1/src/features/$2/',
      },
    },
    {
      name: 'no-circular',
      severity: 'error',
      from: { path: SOURCE },
      to: { circular: true },
    },
    {
      name: 'no-test-in-product',
      severity: 'error',
      from: { path: '^(apps|packages)/[^/]+/src/', pathNot: `${TEST}|^packages/(testing|bench)/` },
      to: { path: '(\\.test\\.ts$|^packages/testing/|^@weighbridge/testing)' },
    },
  ],
  options: {
    includeOnly: `^(apps|packages)/|^@weighbridge/|^(node:)?(fs|net|http|https|http2|child_process|dgram|dns|tls|os|worker_threads)(/|$)|(^|node_modules/)${CLIENTS_AND_SERVERS}`,
    exclude: '(/dist/|packages/contracts/src/gen/)',
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['weighbridge-source', 'import', 'types'],
    },
  },
};
