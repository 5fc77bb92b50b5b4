import { randomUUID } from 'node:crypto';
import type { ConnectorTested } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { notify } from '../../shared/notify.ts';

/** Asks control planes to have proxies test a connector, and tells them what one found. */
export const TESTS_CHANNEL = 'weighbridge_connector_tests';
export const TESTED_CHANNEL = 'weighbridge_connector_tested';

/** The most proxies that are asked: more would say the same, and a vendor limits the rate of its list of models. */
const MAX_PROXIES = 5;
const TEST_TIMEOUT_MS = 10_000;
/** For what is not the test itself. */
const SLACK_MS = 1_000;
/** PostgreSQL takes 8,000 bytes. */
const MAX_MODELS_LENGTH = 3_000;

/** A request to test a connector, as the control planes get it. */
export interface TestRequest {
  readonly testId: string;
  readonly connectorId: string;
  /** The ids of the proxies to ask. */
  readonly proxies: readonly string[];
  readonly timeoutMs: number;
}

/** What one proxy found. */
export interface ProxyFinding {
  readonly testId: string;
  readonly proxy: { readonly id: string; readonly name: string };
  readonly ok: boolean;
  /** 0: the upstream sent no answer. */
  readonly status: number;
  readonly latencyMs: number;
  readonly message: string;
  readonly identity: string;
  readonly region: string;
  readonly models: readonly string[];
  readonly hasMoreModels: boolean;
}

export interface ProxyTestsDeps {
  readonly db: Database;
  /** The proxies that are connected to any control plane, the longest connected first. */
  readonly liveProxies: () => Promise<readonly { readonly id: string; readonly name: string }[]>;
  /** Of one test. Default: 10 s. */
  readonly timeoutMs?: number;
}

/** What proxies found, and the names of those that did not answer in time. */
export interface TestedByProxies {
  readonly findings: readonly ProxyFinding[];
  readonly silent: readonly string[];
}

interface Waiting {
  readonly findings: Map<string, ProxyFinding>;
  readonly wanted: number;
  readonly done: () => void;
}

/**
 * Has proxies test connectors: the identity of a connector is often that of the proxy's pod. Proxies may be connected to another
 * control plane than the one that is asked, so requests and answers go by the database's notifications.
 */
export class ProxyTests {
  readonly #deps: ProxyTestsDeps;
  readonly #waiting = new Map<string, Waiting>();

  constructor(deps: ProxyTestsDeps) {
    this.#deps = deps;
  }

  /** Resolves with nothing if no proxy is connected. */
  async run(connectorId: string): Promise<TestedByProxies> {
    const proxies = (await this.#deps.liveProxies()).slice(0, MAX_PROXIES);
    if (proxies.length === 0) return { findings: [], silent: [] };
    const request: TestRequest = {
      testId: randomUUID(),
      connectorId,
      proxies: proxies.map(({ id }) => id),
      timeoutMs: this.#deps.timeoutMs ?? TEST_TIMEOUT_MS,
    };
    const findings = await this.#ask(request);
    const silent = proxies.filter(({ id }) => !findings.has(id)).map(({ name }) => name);
    return { findings: [...findings.values()], silent };
  }

  async #ask(request: TestRequest): Promise<Map<string, ProxyFinding>> {
    const findings = new Map<string, ProxyFinding>();
    let timer: NodeJS.Timeout | undefined;
    try {
      const answered = new Promise<void>((done) => {
        this.#waiting.set(request.testId, { findings, wanted: request.proxies.length, done });
        timer = setTimeout(done, request.timeoutMs + SLACK_MS);
      });
      await notify(this.#deps.db, TESTS_CHANNEL, request);
      await answered;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(request.testId);
    }
    return findings;
  }

  /** A proxy that is connected to this control plane answered: tells the one that was asked. */
  async tell(proxy: ProxyFinding['proxy'], tested: ConnectorTested): Promise<void> {
    const { testId, ok, status, latencyMs, message, identity, region } = tested;
    const models = fitting(tested.models);
    const finding: ProxyFinding = {
      testId,
      proxy,
      ok,
      status,
      latencyMs,
      message: message.slice(0, 1_000),
      identity: identity.slice(0, 500),
      region: region.slice(0, 64),
      models,
      hasMoreModels: tested.hasMoreModels || models.length < tested.models.length,
    };
    await notify(this.#deps.db, TESTED_CHANNEL, finding);
  }

  /** A notification with the answer of a proxy. */
  heard(text: string): void {
    const finding = JSON.parse(text) as ProxyFinding;
    const waiting = this.#waiting.get(finding.testId);
    if (!waiting) return;
    waiting.findings.set(finding.proxy.id, finding);
    if (waiting.findings.size >= waiting.wanted) waiting.done();
  }
}

function fitting(models: readonly string[]): string[] {
  let left = MAX_MODELS_LENGTH;
  return models.filter((model) => {
    left -= Buffer.byteLength(JSON.stringify(model)) + 1;
    return left >= 0;
  });
}
