import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { UsageStream } from '@weighbridge/bus';
import { createClient } from '@weighbridge/client';
import type { Database } from '@weighbridge/database';
import type { ServiceContext } from '@weighbridge/runtime';
import { createDemoClock } from './clock.ts';
import { TEAMS } from './company.ts';
import { type CreatedCompany, createCompany } from './createCompany.ts';
import { assertEmptyDatabase, assertEmptyFolder } from './fresh.ts';
import { limitsOf } from './limits.ts';
import { DAYS, generateMonth } from './month.ts';
import { readListPrices } from './prices.ts';
import { showProxies } from './showProxies.ts';
import { farewell, greeting, monthLines, vendorLines } from './transcript.ts';
import { startVendors } from './vendors.ts';
import { startWebhookReceiver } from './webhookReceiver.ts';
import { costOfAttempt, writeMonth } from './writeMonth.ts';

const DAY_MS = 86_400_000;
const SEED = 1;

/** Settings that the demo takes from the environment. No vendor's key is among them: it costs nothing, whatever is set. */
const TAKEN = /^(PATH|HOME|TMPDIR|HOST|PORT|DATABASE_URL|LOG_LEVEL|SHUTDOWN_GRACE_MS|NODE_\w+)$/;

export interface DemoOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly print: (text: string) => void;
  /** Ends after the demonstration, instead of serving until a signal. */
  readonly exits: boolean;
}

/** Steps that `up` takes at their time, around its own. */
export interface Demo {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The clock of the control plane. */
  readonly now: () => Date;
  /** Before the folder is created; returns further settings. */
  begin(context: ServiceContext): Promise<Record<string, string>>;
  /** Once the control plane serves at `url`, and before metering and the proxy start. */
  fill(parts: { readonly url: string; readonly operatorKey: string; readonly db: Database }): Promise<void>;
  /** Once everything serves. */
  show(parts: ShownParts, context: ServiceContext): Promise<void>;
}

interface ShownParts {
  readonly url: string;
  readonly signInUrl: string | undefined;
  readonly operatorKey: string;
  readonly dataDir: string;
  readonly db: Database;
  readonly stream: UsageStream;
  readonly controlPlane: { readonly address: string; readonly token: string };
}

const NEEDS_FOLDER =
  'With DATABASE_URL, set WEIGHBRIDGE_DATA_DIR to a new folder too: it keeps the operator key of that database.';

/** Rejects, before anything is changed, if the folder or the database has other data. */
export async function prepareDemo({ env, version, print, exits }: DemoOptions): Promise<Demo> {
  const given = env.WEIGHBRIDGE_DATA_DIR;
  if (env.DATABASE_URL && !given) throw new Error(NEEDS_FOLDER);
  if (given) await assertEmptyFolder(given);
  if (env.DATABASE_URL) await assertEmptyDatabase(env.DATABASE_URL);
  const dataDir = given
    ? resolve(given)
    : join(tmpdir(), `weighbridge-demo-${randomBytes(4).toString('hex')}`);
  const clock = createDemoClock();
  let opened: Awaited<ReturnType<typeof openParts>> | undefined;
  let company: CreatedCompany | undefined;
  print(greeting({ seed: SEED, dataDir, isKept: Boolean(given) }));
  return {
    env: {
      ...Object.fromEntries(Object.entries(env).filter(([name]) => TAKEN.test(name))),
      WEIGHBRIDGE_DATA_DIR: dataDir,
      // Thresholds are warnings, and the transcript has them as alerts.
      LOG_LEVEL: env.LOG_LEVEL || 'error',
    },
    now: clock.now,
    async begin(context) {
      if (!given) context.onShutdown('demo folder', () => rm(dataDir, { recursive: true, force: true }));
      clock.setBack((DAYS + 1) * DAY_MS);
      opened = await openParts(context, print);
      return {
        ALLOWED_UPSTREAM_HOSTS: opened.vendors.hosts.join(','),
        ALLOWED_WEBHOOK_HOSTS: opened.receiver.host,
      };
    },
    async fill({ url, operatorKey, db }) {
      if (!opened) throw new Error('the demo has not begun');
      const { vendors, receiver } = opened;
      const began = performance.now();
      const now = new Date();
      const month = generateMonth(SEED, now);
      const models = [...new Set(TEAMS.flatMap((team) => team.models.map(({ model }) => model)))];
      const prices = await readListPrices(db, models);
      company = await createCompany(createClient({ baseUrl: url, apiKey: operatorKey }), {
        limits: limitsOf(month, prices, now),
        vendorUrls: vendors.urls,
        webhookUrl: receiver.url,
      });
      receiver.trust(company.webhookSecret);
      clock.release();
      await writeMonth({ db, company, prices, seed: SEED }, month);
      const spent = month.attempts.reduce((sum, attempt) => sum + costOfAttempt(attempt, prices), 0n);
      print(monthLines({ month, spent, seconds: (performance.now() - began) / 1_000 }));
    },
    async show(parts, context) {
      if (!opened || !company) throw new Error('the demo has not begun');
      await showProxies({ ...parts, ...opened, company, version, print }, context);
      print(farewell({ ...parts, company, exits, isKept: Boolean(given) }));
      // The same way out as Ctrl-C: everything that was started is closed.
      if (exits) process.kill(process.pid, 'SIGTERM');
    },
  };
}

async function openParts({ onShutdown }: ServiceContext, print: DemoOptions['print']) {
  const vendors = await startVendors();
  onShutdown('demo vendors', () => vendors.close());
  print(vendorLines(vendors.urls));
  const receiver = await startWebhookReceiver(({ type, policyName, percent }) =>
    print(
      `      alert received, signature verified: ${type}, "${policyName}"${percent ? `, ${percent} %` : ''}`,
    ),
  );
  onShutdown('demo webhook receiver', () => receiver.close());
  return { vendors, receiver };
}
