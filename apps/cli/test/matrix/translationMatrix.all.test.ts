import { fileURLToPath } from 'node:url';
import type { BillEntry, MockVendor } from '@weighbridge/mock-vendor';
import { expectTable } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientScene, openClientScene, type VendorName } from '../clients/clientScene.ts';
import { type CloudModel, type Clouds, openClouds } from './clouds.ts';
import { type MatrixResult, matrixSection } from './matrixSection.ts';
import { chatSurface, responsesSurface } from './openaiSurfaces.ts';
import { generateContentSurface, messagesSurface } from './otherSurfaces.ts';
import { CITES, SCENARIOS, type Scenario } from './scenarios.ts';
import type { Answered, Service, Surface } from './surface.ts';

const SECTION = fileURLToPath(new URL('translationMatrix.md', import.meta.url));
const SURFACES: readonly ((service: Service) => Surface)[] = [
  chatSurface,
  responsesSurface,
  messagesSurface,
  generateContentSurface,
];

interface Column {
  readonly model: `${VendorName}/${string}` | CloudModel;
  /** Chat completions pass there. */
  readonly servesChat: boolean;
  /** It gets back of its reasoning; undefined: it does not reason. */
  readonly signs: RegExp | undefined;
  readonly isCloud?: boolean;
}

const ENCRYPTED = /"encrypted_content"/;
const THINKING = /"type":"thinking"/;
// What stands for a signature is not in base64.
const SIGNATURE = /"thoughtSignature":"[A-Za-z0-9+/=]{40}"/;
const COLUMNS: readonly Column[] = [
  { model: 'openai/gpt-6.1-sol', servesChat: true, signs: ENCRYPTED },
  { model: 'anthropic/claude-opus-5-5', servesChat: false, signs: THINKING },
  { model: 'gemini/gemini-3.8-flash', servesChat: false, signs: SIGNATURE },
  { model: 'azure/gpt-6.1-sol', servesChat: true, signs: ENCRYPTED, isCloud: true },
  {
    model: 'bedrock/anthropic.claude-opus-5-5-v1:0',
    servesChat: false,
    signs: THINKING,
    isCloud: true,
  },
  { model: 'vertex/gemini-3.8-flash', servesChat: false, signs: SIGNATURE, isCloud: true },
  { model: 'vertex/claude-opus-5-5@20260901', servesChat: false, signs: THINKING, isCloud: true },
  { model: 'mistral/mistral-large-latest', servesChat: true, signs: undefined },
  { model: 'acme/claude-opus-5-5', servesChat: false, signs: THINKING },
];

let scene: ClientScene;
let clouds: Clouds;
beforeAll(async () => {
  scene = await openClientScene({}, { checksHistory: true });
  clouds = await openClouds(scene);
});
afterAll(async () => {
  await scene?.close();
  await clouds?.close();
});

function vendorOf({ model, isCloud = false }: Column): MockVendor {
  return isCloud ? clouds.vendor : scene.vendor(model.slice(0, model.indexOf('/')) as VendorName);
}

interface Ran {
  readonly keyId: string;
  readonly scenario: Scenario;
  readonly result: MatrixResult;
  /** What an SDK or the vendor did not do; empty if all is well. */
  readonly failure: string;
  readonly bill: readonly (BillEntry & { readonly cost: number })[];
}

async function runCell(
  make: (service: Service) => Surface,
  column: Column,
  scenario: Scenario,
): Promise<Ran> {
  const { model, servesChat, signs } = column;
  const body = { name: 'matrix', principal_id: 'matrix', scopes: ['inference'] };
  const { id, key } = await scene.manage('POST', '/api/v1/keys', body);
  const vendor = vendorOf(column);
  const surface = make({ url: scene.tap.url, key: String(key) });
  // Where chat completions pass, they neither show reasoning nor take it back.
  const passes = surface.name === 'chat completions' && servesChat;
  const cites = !model.startsWith('mistral/') && !passes;
  const { [CITES]: source, ...script } = scenario.script ?? {};
  const followed = cites && source !== undefined ? { ...script, [CITES]: source } : script;
  scene.begin(followed);
  clouds.vendor.script(followed);
  clouds.vendor.clear();
  const cell = { surface, vendor, model, cites, signs: passes ? undefined : signs };
  let failure = '';
  let answered: readonly Answered[] = [];
  try {
    answered = await scenario.run(cell);
    const bill = vendor.bill.map(({ inputTokens, outputTokens }) => [inputTokens, outputTokens]);
    if (scenario.outcome === undefined) {
      // What the SDK tells of the usage is what the vendor bills.
      expect(answered.map(({ usage }) => [usage.input, usage.output])).toEqual(bill);
    }
  } catch (error) {
    failure = String((error as Error).message)
      .split('\n')
      .slice(0, 8)
      .join(' ')
      .slice(0, 400);
  }
  const bill = vendor.bill.map((entry) => ({ ...entry, cost: Number(vendor.costOf(entry)) / 1_000 }));
  const result = { surface: surface.name, sdk: surface.sdk, vendor: model };
  return { keyId: String(id), scenario, result, failure, bill };
}

/** The ledger beside the bill; empty if they agree. A cell that fails is billed all the same. */
async function unequal({ keyId, scenario, bill }: Ran): Promise<string> {
  if (bill.length !== scenario.billed) return `the vendor bills ${bill.length} requests`;
  const rows = await scene.rows(keyId, Math.max(1, bill.length));
  const cost = bill.reduce((sum, entry) => sum + entry.cost, 0);
  const charged = rows.reduce((sum, row) => sum + Number(row.cost_micro_usd), 0);
  const outcomes = new Set(rows.map(({ outcome }) => outcome));
  const expected = scenario.outcome ?? 'success';
  // A vendor that bills on is read to its end.
  const isLeft = expected === 'client_gone';
  if (!isLeft && (outcomes.size !== 1 || !outcomes.has(expected))) return `outcomes ${[...outcomes]}`;
  const isCovered = isLeft ? charged >= 0.95 * cost - 1 : Math.abs(charged - cost) <= rows.length;
  return isCovered ? '' : `the vendor bills ${cost}, the ledger has ${charged}`;
}

const nameOf = ({ result, scenario }: Ran) => `${result.surface} on ${result.vendor}, ${scenario.name}`;

it('every SDK uses every vendor, and the ledger has what each bills', async () => {
  const ran: Ran[] = [];
  for (const make of SURFACES) {
    for (const column of COLUMNS) {
      for (const scenario of SCENARIOS) ran.push(await runCell(make, column, scenario));
    }
  }
  await expectTable(ran, nameOf, async (one) => {
    const wrong = [one.failure, await unequal(one)].filter((text) => text !== '');
    if (wrong.length > 0) throw new Error(wrong.join('; '));
  });
  expect(new Set(clouds.refusals())).toEqual(new Set(['ThrottlingException', '429']));
  await expect(
    matrixSection(
      ran.map(({ result }) => result),
      SCENARIOS,
    ),
  ).toMatchFileSnapshot(SECTION);
});
