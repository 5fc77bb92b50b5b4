import { setTimeout as sleep } from 'node:timers/promises';
import type { UsageStream } from '@weighbridge/bus';
import { bodyOf, createClient } from '@weighbridge/client';
import type { Database } from '@weighbridge/database';
import type { ServiceContext } from '@weighbridge/runtime';
import { LIVE } from './company.ts';
import { type Comparison, compareBills, readTotals } from './compareBills.ts';
import type { CreatedCompany } from './createCompany.ts';
import { runLoad } from './load.ts';
import { createProxies, type ProxyOptions } from './proxies.ts';
import { billLines, loadLines, usd } from './transcript.ts';
import type { DemoVendors } from './vendors.ts';
import type { WebhookReceiver } from './webhookReceiver.ts';

const NAMES = ['proxy-1', 'proxy-2', 'proxy-3'];
/** Of the requests that the budget pays for, about a third. */
const KILL_AFTER = 250;
const LOAD = { atOnce: 24, atMost: 6_000, untilRefused: 30 };
const SETTLE_TIMEOUT_MS = 40_000;
const POLL_MS = 250;
const NANO_PER_MICRO = 1_000;

export interface ShowDeps {
  readonly url: string;
  readonly operatorKey: string;
  readonly dataDir: string;
  readonly db: Database;
  readonly stream: UsageStream;
  readonly controlPlane: ProxyOptions['controlPlane'];
  readonly version: string;
  readonly company: CreatedCompany;
  readonly vendors: DemoVendors;
  readonly receiver: WebhookReceiver;
  readonly print: (text: string) => void;
}

/** Three proxies spend one budget under load, one is killed; then the ledger is compared with the vendors' bills. */
export async function showProxies(deps: ShowDeps, { onShutdown, fail }: ServiceContext): Promise<void> {
  const { company, vendors, db, print, receiver } = deps;
  print(
    `\n[2/4] Three proxies, one budget of ${usd(BigInt(LIVE.limitMicroUsd * NANO_PER_MICRO))}, and one of them is killed`,
  );
  const proxies = createProxies(deps);
  onShutdown('demo proxies', () => proxies.stopAll(), 20_000);
  const started = await Promise.all(NAMES.map((name) => proxies.start(name)));
  print(`      started ${started.map(({ name, pid }) => `${name} (process ${pid})`).join(', ')}`);
  vendors.openBills();

  let replaced: Promise<unknown> | undefined;
  const load = await runLoad({
    ...LOAD,
    key: company.liveKey,
    urls: proxies.urls,
    onSuccess(succeeded) {
      const [, victim] = started;
      if (succeeded < KILL_AFTER || replaced || !victim) return;
      const { name, pid } = victim;
      print(`      after ${succeeded} responses: kill -9 ${pid} (${name}), in the middle of its requests`);
      // As Kubernetes does: another process, with the volume of the one that is gone.
      replaced = victim.kill().then(() => proxies.start(name));
      replaced.then(
        () => print(`      ${name} is back, and goes on with the spool that it left`),
        (error) => fail(error),
      );
    },
  });
  await replaced;
  print(loadLines(load));

  print('\n[3/4] The ledger catches up');
  const comparison = await settled(deps);
  await correct(deps, comparison);
  const totals = await readTotals(db, company.livePolicyId);
  await receivedAlerts(receiver);
  print("\n[4/4] The ledger beside the vendors' own bills");
  const lines = billLines({ comparison, totals, limit: BigInt(LIVE.limitMicroUsd * NANO_PER_MICRO) });
  print(lines.text);
  if (!lines.isEqual) throw new Error('the ledger differs from the bills: please report this');
}

/** Waits until every request that a vendor bills is in the ledger, and nothing changes any more. */
async function settled({ db, company, vendors }: ShowDeps): Promise<Comparison> {
  const giveUpAt = performance.now() + SETTLE_TIMEOUT_MS;
  let last: Comparison | undefined;
  for (;;) {
    const now = await compareBills(db, company.livePolicyId, vendors.charges());
    const isSame = last?.rows === now.rows && last.estimated.billed === now.estimated.billed;
    if (now.missing === 0 && isSame) return now;
    if (performance.now() > giveUpAt) return now;
    last = now;
    await sleep(POLL_MS * (isSame ? 1 : 4));
  }
}

/** What an operator does when the vendor's invoice arrives: rows are never edited, a correction is a row of its own. */
async function correct({ url, operatorKey, print }: ShowDeps, { corrections }: Comparison): Promise<void> {
  const client = createClient({ baseUrl: url, apiKey: operatorKey });
  let corrected = 0;
  let owed = 0n;
  for (const { requestId: request_id, nano } of corrections) {
    // Corrections are in whole micro-dollars: each takes over what the one before could not express.
    owed += nano;
    const amount = Math.floor((Number(owed) + 499) / NANO_PER_MICRO);
    if (amount === 0) continue;
    owed -= BigInt(amount * NANO_PER_MICRO);
    const params = { path: { request_id } };
    const body = { amount_micro_usd: amount, reason: `the vendor's bill, after the crash of a proxy` };
    await bodyOf(client.POST('/api/v1/requests/{request_id}/corrections', { params, body }));
    corrected++;
  }
  if (corrected > 0)
    print(
      `      corrected ${corrected} estimated costs by the vendors' bills (weighbridge requests correct)`,
    );
}

/** The budget of the load reaches both of its thresholds. Alerts are sent within seconds. */
async function receivedAlerts({ alerts }: WebhookReceiver): Promise<void> {
  const giveUpAt = performance.now() + SETTLE_TIMEOUT_MS;
  const hasArrived = () => alerts.some(({ policyName }) => policyName === LIVE.policy);
  while (!hasArrived() && performance.now() < giveUpAt) await sleep(POLL_MS);
  if (!hasArrived()) throw new Error('no alert of the budget arrived');
}
