import { requireLinux } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ANSWERS } from './answers.cases.ts';
import { BOUNDS } from './bounds.cases.ts';
import { CLIENTS } from './clients.cases.ts';
import { CONNECTOR_TESTS } from './connectorTests.cases.ts';
import { CONTAINERS } from './containers.cases.ts';
import { CONTRACT } from './contract.cases.ts';
import { CREDENTIAL_REFUSALS } from './credentialRefusals.cases.ts';
import { deploymentCases } from './deployment.cases.ts';
import { DIMENSIONS } from './dimensions.cases.ts';
import { FEED } from './feed.cases.ts';
import { FURTHER_LIMITS } from './furtherLimits.cases.ts';
import { GEMINI } from './gemini.cases.ts';
import type { HostileCase } from './hostileCase.ts';
import { IDENTITIES } from './identities.cases.ts';
import { INFERENCE } from './inference.cases.ts';
import { ITEMS } from './items.cases.ts';
import { KEYS } from './keys.cases.ts';
import { LIMITS } from './limits.cases.ts';
import { MANAGEMENT } from './management.cases.ts';
import { MEMORY } from './memory.cases.ts';
import { NAMES } from './names.cases.ts';
import { OBJECTS } from './objects.cases.ts';
import { ON_EXHAUSTED } from './onExhausted.cases.ts';
import { OVERRIDES } from './overrides.cases.ts';
import { PIPELINING } from './pipelining.cases.ts';
import type { Mode } from './product.ts';
import { PROTOCOL } from './protocol.cases.ts';
import { REFUSALS } from './refusals.cases.ts';
import { openScene, type Scene } from './scene.ts';
import { STREAMS } from './streams.cases.ts';
import { TEAMS } from './teams.cases.ts';
import { TOOL_CASES } from './tools.cases.ts';
import { TRANSLATED_ANSWERS, TRANSLATION_MEMORY } from './translatedAnswers.cases.ts';
import { TRANSLATION } from './translation.cases.ts';
import { USAGE_BOUNDS } from './usageBounds.cases.ts';
import { forgeryCases } from './usageForgery.cases.ts';
import { VENDORS } from './vendors.cases.ts';
import { WALLS } from './walls.cases.ts';
import { WEBHOOKS } from './webhooks.cases.ts';

const MONEY: readonly HostileCase[] = [
  ...ANSWERS,
  ...CONTAINERS,
  ...DIMENSIONS,
  ...FURTHER_LIMITS,
  ...LIMITS,
  ...TOOL_CASES,
  ...STREAMS,
  ...USAGE_BOUNDS,
];

/**
 * The suite `hostile`: each attack against the product in this mode, which runs once for all of them; or, as a sample, one of so
 * many in each part.
 */
export function hostileSuite(mode: Mode, sample = 1): void {
  const some = (cases: readonly HostileCase[]) => cases.filter((_one, at) => at % sample === 0);
  vi.setConfig({ maxConcurrency: 4 });
  let scene: Scene;
  beforeAll(async () => {
    scene = await openScene(mode);
  });
  afterAll(() => scene?.close());

  // First: a process that has just started holds nothing.
  describe('memory', () => {
    beforeAll(() => requireLinux('only Linux shows the memory of another process'));
    for (const { row, title, run } of some([...MEMORY, ...TRANSLATION_MEMORY, ...BOUNDS]))
      it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('money', () => {
    for (const { row, title, run } of some(MONEY)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('keys', () => {
    for (const { row, title, run } of some(KEYS)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('inference', () => {
    for (const { row, title, run } of some(INFERENCE)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('deployment', () => {
    for (const { row, title, run } of some([...deploymentCases(mode), ...forgeryCases(mode)]))
      it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('vendors', () => {
    for (const { row, title, run } of some([
      ...VENDORS,
      ...CREDENTIAL_REFUSALS,
      ...IDENTITIES,
      ...CONNECTOR_TESTS,
    ]))
      it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('gemini', () => {
    for (const { row, title, run } of some(GEMINI)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('translation', () => {
    for (const { row, title, run } of some([...TRANSLATION, ...TRANSLATED_ANSWERS]))
      it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('management', () => {
    for (const { row, title, run } of some(MANAGEMENT)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('teams', () => {
    for (const { row, title, run } of some([...TEAMS, ...OVERRIDES, ...ON_EXHAUSTED]))
      it(`${row}: ${title}`, () => run(scene));
  });
  // One after the other: there can be 50.
  describe('webhooks', () => {
    for (const { row, title, run } of some(WEBHOOKS)) it(`${row}: ${title}`, () => run(scene));
  });
  describe('clients', () => {
    for (const { row, title, run } of some(CLIENTS)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('contract', () => {
    for (const { row, title, run } of some(CONTRACT)) it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('protocol', () => {
    for (const { row, title, run } of some([...PROTOCOL, ...PIPELINING]))
      it(`${row}: ${title}`, () => run(scene));
  });
  describe.concurrent('walls', () => {
    for (const { row, title, run } of some([...WALLS, ...OBJECTS, ...ITEMS, ...NAMES, ...REFUSALS]))
      it(`${row}: ${title}`, () => run(scene));
  });
  // One after the other: there is one feed.
  describe('feed', () => {
    for (const { row, title, run } of some(FEED)) it(`${row}: ${title}`, () => run(scene));
  });
  it('no attack made the product fail: no unexpected error is in its log', () => {
    const failures = scene.product
      .output()
      .split('\n')
      .filter((line) => isFailure(line));
    expect(failures).toEqual([]);
  });
}

/** A line of the log that tells of a mistake in the product, not of a vendor, a client or a busy machine. */
function isFailure(line: string): boolean {
  if (/uncaught|unhandled|FATAL/i.test(line)) return true;
  return (
    /"level":(50|60)/.test(line) &&
    /"type":"(Type|Range|Reference|Syntax|Assertion)Error"|"outcome":"fault"/.test(line)
  );
}
