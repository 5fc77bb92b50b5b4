import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import { MESSAGES, RESPONSES } from '../src/formats/operation.ts';
import type { Field, Fields } from '../src/formats/requestFields/field.ts';
import { findNamedObjects } from '../src/formats/storedObjects.ts';
import {
  bodyAt,
  CHAT_PLACES,
  GEMINI_PLACES,
  ITEM_TYPES,
  type Kind,
  MESSAGES_PLACES,
  RESPONSES_PLACES,
} from './objectPlaces.ts';
import { ALICE, BOB, OWN_ONLY, startProxy, type TestProxy } from './proxy.ts';
import { type ScriptedVendor, startScriptedVendor } from './scriptedVendor.ts';
import type { Places } from './sdkPlaces.ts';

type Json = Record<string, unknown>;

/** An API, what its requests have in any case, and where they may name objects. */
interface Api {
  readonly path: string;
  readonly base: Json;
  readonly places: readonly (readonly [place: string, kind: Kind])[];
}

const items = ITEM_TYPES.map((type) => [`.input[]{${type}}.id`, 'item'] as const);
const APIS: Readonly<Record<'responses' | 'messages' | 'chat' | 'gemini', Api>> = {
  responses: {
    path: '/v1/responses',
    base: { model: 'mock/echo', input: 'hi' },
    places: [...items, ...Object.entries(RESPONSES_PLACES)],
  },
  messages: {
    path: '/v1/messages',
    base: { model: 'mock/echo', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] },
    places: Object.entries(MESSAGES_PLACES),
  },
  chat: {
    path: '/v1/chat/completions',
    base: { model: 'mock/echo', messages: [{ role: 'user', content: 'hi' }] },
    places: Object.entries(CHAT_PLACES),
  },
  gemini: {
    path: '/v1beta/models/mock/echo:generateContent',
    base: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
    places: Object.entries(GEMINI_PLACES),
  },
};

let vendor: ScriptedVendor;
let proxy: TestProxy;
beforeAll(async () => {
  vendor = await startScriptedVendor();
  proxy = await startProxy({ vendorUrl: vendor.url });
  return async () => {
    await proxy.close();
    await vendor.close();
  };
});

async function ask(key: string, path: string, body: Json): Promise<number> {
  const response = await fetch(proxy.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await response.text();
  return response.status;
}

let made = 0;
/** The id of an object that a response to Alice shows, in a document or a stream. */
async function make({ path, base }: Api, kind: Kind, type: string, stream: boolean): Promise<string> {
  const id = `made_${++made}`;
  vendor.show({ kind, type, id });
  const asked = {
    responses: {},
    messages: { diagnostics: { previous_message_id: null } },
    chat: { audio: {} },
  };
  const fields = path.endsWith('messages') ? asked.messages : path.endsWith('completions') ? asked.chat : {};
  expect(await ask(ALICE, path, { ...base, ...fields, ...(stream && { stream }) })).toBe(200);
  vendor.show(undefined);
  return id;
}

const ITEM = /^\.input\[\]\{(\w+)\}\.id$/;
/** Which API makes what another one names. */
function makerOf(name: keyof typeof APIS, kind: Kind): Api {
  const isResponses = name === 'chat' && kind === 'file';
  return isResponses ? APIS.responses : APIS[name];
}

describe.each(Object.entries(APIS))('an object that a request names on %s', (name, api) => {
  const { path, base, places } = api;
  const naming = (place: string, id: string) => ({ ...base, ...bodyAt(place, id) });
  const made = places.filter(([, kind]) => kind !== 'outside' && kind !== 'nothing');

  // Gemini's API shows none that a later request can name.
  it(`is its maker's in every place, however it was shown: ${made.length} places`, async () => {
    expect(made.length > 0).toBe(name !== 'gemini');
    for (const [place, named] of made) {
      const kind = named.replace('cited ', '') as Kind;
      const type = ITEM.exec(place)?.[1] ?? 'mcp_approval_request';
      for (const stream of [false, true]) {
        const id = await make(makerOf(name as keyof typeof APIS, kind), kind, type, stream);
        const before = vendor.received;
        for (const fields of [{}, { stream: true }]) {
          const status = await ask(BOB, path, { ...naming(place, id), ...fields });
          expect([place, stream, status]).toEqual([place, stream, 404]);
        }
        expect([place, vendor.received]).toEqual([place, before]);
        const own = await ask(ALICE, path, naming(place, id));
        expect([place, stream, own]).toEqual([place, stream, 200]);
      }
    }
  });

  it('is refused in every place if it was made outside, where the policy says so', async () => {
    for (const [at, [place, kind]] of places.entries()) {
      const id = name === 'gemini' ? `files/outside-${at}` : `outside_${at}`;
      const isRefused = kind !== 'nothing' && !kind.startsWith('cited');
      const before = vendor.received;
      const status = await ask(OWN_ONLY, path, naming(place, id));
      expect([place, status]).toEqual([place, isRefused ? 404 : 200]);
      expect([place, vendor.received - before]).toEqual([place, isRefused ? 0 : 1]);
      expect([place, await ask(BOB, path, naming(place, id))]).toEqual([place, 200]);
    }
  });
});

describe('the properties above', () => {
  /** The places that a table of fields does not know. */
  const missed = (fields: Fields, places: Api['places']) =>
    places.flatMap(([place, kind]) => {
      const body = Buffer.from(JSON.stringify(bodyAt(place, 'x')));
      return kind !== 'nothing' && findNamedObjects(body, fields).length === 0 ? [place] : [];
    });

  it('would fail for an id that a table does not know', () => {
    expect(missed(RESPONSES.requestFields, APIS.responses.places)).toEqual([]);
    expect(missed(MESSAGES.requestFields, APIS.messages.places)).toEqual([]);
    const free: Field = { cost: 'free', value: { kind: 'any' } };
    const { diagnostics: _, ...holed } = MESSAGES.requestFields;
    expect(missed(holed, APIS.messages.places)).toEqual(['.diagnostics.previous_message_id']);
    const unnamed = { ...RESPONSES.requestFields, input: free };
    expect(missed(unnamed, APIS.responses.places)).toContain('.input[]{reasoning}.id');
  });

  it('would not compile for an item of an SDK that no table has', () => {
    type Planted = { type: 'hologram_call'; hologram_id: string; deep: { ids: readonly string[] } | null };
    expectTypeOf<
      Places<{ input?: readonly (Planted | string)[] }>
    >().toEqualTypeOf<'.input[]{hologram_call}.hologram_id'>();
    // @ts-expect-error The place of the planted item is not in the table.
    RESPONSES_PLACES satisfies Record<Places<{ input: Planted[] }>, Kind>;
  });
});
