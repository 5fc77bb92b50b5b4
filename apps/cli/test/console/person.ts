import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { APIResponse, Browser, BrowserContext, Page, Route } from 'playwright-core';
import { expect } from 'vitest';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const WAIT_MS = 120_000;

/** Someone who uses the console in their own browser. */
export interface Person {
  readonly context: BrowserContext;
  readonly page: Page;
  open(path: string): Promise<void>;
  signIn(key: string): Promise<void>;
  /** Rules of accessibility that the page breaks. */
  violations(): Promise<string[]>;
  /** What the page wrote to the console of the browser as errors, and what it asked of other origins. */
  readonly faults: string[];
}

export async function newPerson(
  browser: Browser,
  url: string,
  colorScheme: 'light' | 'dark' = 'light',
  otherOrigins: readonly string[] = [],
): Promise<Person> {
  const context = await browser.newContext({ colorScheme, viewport: { width: 1_360, height: 860 } });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('console', (message) => {
    // The browser itself logs each refused request; what the page shows then is asserted by each test.
    if (message.type() !== 'error' || /Failed to load resource/.test(message.text())) return;
    faults.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on('request', (request) => {
    const isKnown = [url, ...otherOrigins].some((origin) => request.url().startsWith(`${origin}/`));
    if (!isKnown) faults.push(`a foreign request: ${request.url()}`);
  });
  const axe = await readFile(AXE, 'utf8');
  return {
    context,
    page,
    faults,
    async open(path) {
      await page.goto(`${url}/console${path}`);
    },
    async signIn(key) {
      await page.goto(`${url}/`);
      const first = page.locator('input').first();
      await first.fill(key);
      await first.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    },
    async violations() {
      // By the protocol of the browser: the page's own policy would not run it.
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { axe: loaded } = globalThis as unknown as {
          axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
        };
        const { violations } = await loaded.run();
        return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
      });
      return found.map((one) => `${page.url()}: ${one}`);
    },
  };
}

/** Does something with what a row is about: by its button, or else by the menu of its row. */
export async function act(page: Page, label: string, of: string): Promise<void> {
  const button = page.getByRole('button', { name: `${label} ${of}`, exact: true });
  const more = page.getByRole('button', { name: `More actions for ${of}`, exact: true });
  await button.or(more).first().waitFor();
  if ((await button.count()) > 0) return await button.click();
  await more.click();
  await page.getByRole('menuitem', { name: label, exact: true }).click();
}

/** The service's answer to a request of the page, in full also where the page has it. */
export async function wholeAnswer(route: Route): Promise<APIResponse> {
  const { 'if-none-match': _, ...headers } = route.request().headers();
  return await route.fetch({ headers });
}

/** Waits until a page shows its data or why it can't: it never loads for ever. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).waitFor();
  await expect.poll(() => page.getByText('Loading …').count(), { timeout: WAIT_MS }).toBe(0);
}
