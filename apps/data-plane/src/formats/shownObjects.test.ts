import { describe, expect, it } from 'vitest';
import {
  bodyAt,
  type SHOWN_IN_EVENTS,
  SHOWN_IN_MESSAGE,
  type SHOWN_IN_MESSAGE_EVENTS,
  SHOWN_IN_RESPONSE,
} from '../../test/objectPlaces.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { MESSAGES, RESPONSES } from './operation.ts';
import { noFacts, type ResponseFormat, readBody } from './responseFormat.ts';
import { StreamTap } from './streamTap.ts';

type Json = Record<string, unknown>;
const ID = 'shown_1';

/** What a response names, by its id or as an object. */
function namedIn(format: ResponseFormat, document: Json): string[] {
  const facts = noFacts();
  readBody(format, Buffer.from(JSON.stringify(document)), facts);
  return [facts.responseId, ...(facts.objects?.ids.keys() ?? [])].filter((id) => id !== '');
}

function namedBy(format: ResponseFormat, event: Json): string[] {
  const tap = new StreamTap({ format, hideUsage: false });
  tap.push(Buffer.from('data: {"type":"ping"}\n\n'));
  tap.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
  return [tap.facts.responseId, ...(tap.facts.objects?.ids.keys() ?? [])].filter((id) => id !== '');
}

/** The same in an event that passes in pieces, since no memory is left to hold it, before its end. */
function namedInPieces(format: ResponseFormat, event: Json): string[] {
  const memory = { tryTake: () => false, release: () => {} } as unknown as HeldMemory;
  const tap = new StreamTap({ format, hideUsage: false, memory });
  tap.push(Buffer.from('data: {"type":"ping"}\n\n'));
  const text = JSON.stringify(event).slice(0, -1);
  tap.push(Buffer.from(`data: {"other":"x",${text.slice(1)},"rest":"`));
  return [tap.facts.responseId, ...(tap.facts.objects?.ids.keys() ?? [])].filter((id) => id !== '');
}

describe('a response shows', () => {
  const { responseFormat: format } = RESPONSES;

  it.each(Object.entries(SHOWN_IN_RESPONSE))('an object at %s: %s', (place, kind) => {
    const document = bodyAt(place, ID);
    const named = kind === 'nothing' ? [] : [ID];
    expect(namedIn(format, document)).toEqual(named);
    expect(namedBy(format, { type: 'response.completed', response: document })).toEqual(named);
    expect(namedInPieces(format, { type: 'response.completed', response: document })).toEqual(named);
  });

  it.each(Object.keys(SHOWN_IN_RESPONSE).filter((place) => place.startsWith('.output[]')))(
    'an object of an item that an event has, as in %s',
    (place) => {
      const [item] = bodyAt(place, ID).output as Json[];
      const kind = SHOWN_IN_RESPONSE[place as keyof typeof SHOWN_IN_RESPONSE];
      for (const type of ['added', 'done']) {
        const named = namedBy(format, { type: `response.output_item.${type}`, item });
        expect(named).toEqual(kind === 'nothing' ? [] : [ID]);
      }
    },
  );

  it('an object in each member of an event that may have one', () => {
    const cited = { type: 'container_file_citation', container_id: ID };
    const events = {
      response: { id: ID },
      item: { id: ID },
      item_id: ID,
      part: { type: 'output_text', text: '', annotations: [cited] },
    } satisfies Record<keyof typeof SHOWN_IN_EVENTS, unknown>;
    for (const [member, value] of [...Object.entries(events), ['annotation', cited] as const]) {
      expect([member, namedBy(format, { type: 'response.any', [member]: value })]).toEqual([member, [ID]]);
      expect([member, namedInPieces(format, { type: 'response.any', [member]: value })]).toEqual([
        member,
        [ID],
      ]);
    }
  });
});

describe('a message shows', () => {
  const { responseFormat: format } = MESSAGES;

  it.each(Object.entries(SHOWN_IN_MESSAGE))('an object at %s: %s', (place, kind) => {
    const document = bodyAt(place, ID);
    expect(namedIn(format, document)).toEqual(kind === 'nothing' ? [] : [ID]);
  });

  it('an object in each member of an event that may have one', () => {
    const output = { type: 'code_execution_output', file_id: ID };
    const content = { type: 'code_execution_result', content: [output] };
    const events = {
      message: ['message_start', { id: '', container: { id: ID } }],
      delta: ['message_delta', { container: { id: ID } }],
      content_block: ['content_block_start', { type: 'code_execution_tool_result', content }],
    } satisfies Record<keyof typeof SHOWN_IN_MESSAGE_EVENTS, unknown>;
    for (const [member, [type, value]] of Object.entries(events)) {
      const event = { type, [String(member)]: value, usage: {} };
      expect([member, namedBy(format, event)]).toEqual([member, [ID]]);
      expect([member, namedInPieces(format, event)]).toEqual([member, [ID]]);
    }
  });
});
