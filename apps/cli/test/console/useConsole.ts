import { freePort, type TestProvider } from '@weighbridge/testing';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { manage, type Service } from '../mainJob.ts';
import type { RunningProcess } from '../processes.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';
import { launchChromium } from './chromium.ts';
import { newPerson, type Person } from './person.ts';
import { loginSettings, startLogin } from './signIn.cases.ts';

/** The product, a browser, and a provider by which people sign in: of the tests of a file. */
export interface TestConsole {
  readonly service: Service;
  readonly running: RunningProcess;
  readonly browser: Browser;
  readonly login: TestProvider;
  person(scheme?: 'light' | 'dark'): Promise<Person>;
  /** Returns the secret of a new key. */
  issueKey(fields: Record<string, unknown>): Promise<string>;
}

/** Starts them before the tests of a file, and stops them after. The returned function is for tests and hooks. */
export function useConsole(): () => TestConsole {
  let dataDir: string;
  let login: TestProvider | undefined;
  let running: RunningProcess | undefined;
  let browser: Browser | undefined;
  let started: TestConsole;
  beforeAll(async () => {
    dataDir = await newDataDir('weighbridge-console-');
    const PORT = String(await freePort());
    const provider = await startLogin(`http://127.0.0.1:${PORT}`);
    login = provider;
    const settings = { PORT, ...loginSettings(provider, `http://127.0.0.1:${PORT}`) };
    const [{ process, service }, chromium] = await Promise.all([
      startUp(dataDir, settings),
      launchChromium(),
    ]);
    running = process;
    browser = chromium;
    started = {
      service,
      running: process,
      browser: chromium,
      login: provider,
      person: (scheme) => newPerson(chromium, service.managementUrl, scheme),
      async issueKey(fields) {
        const { status, body } = await manage(service, 'POST', '/api/v1/keys', { body: fields });
        expect([status, body]).toEqual([201, expect.anything()]);
        return body.key as string;
      },
    };
  });
  afterAll(async () => {
    await login?.close();
    await browser?.close();
    await running?.stop();
    await removeDataDir(dataDir);
  });
  return () => started;
}
