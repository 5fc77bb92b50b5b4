import { usageFromConverse } from '@weighbridge/domain';
import { isRecord, type JsonRecord, joinTexts, recordsIn } from './jsonFields.ts';
import { shape } from './jsonShape.ts';
import { fieldMarker, type ResponseFacts, type ResponseFormat } from './responseFormat.ts';

const METADATA = shape({ usage: 'value' });
const EVENT = shape({
  metadata: { members: METADATA },
  messageStop: 'presence',
  exception: 'presence',
});
const BODY = shape({ usage: 'value' });

/**
 * Bedrock's Converse, as its connection passes it on: each event is an object with one member, named by its type. The last one,
 * `metadata`, reports the usage.
 */
export const converseFormat: ResponseFormat = {
  markers: [fieldMarker('metadata'), fieldMarker('messageStop'), fieldMarker('exception')],
  eventShape: EVENT,
  bodyShape: BODY,
  plainBodyShape: BODY,
  details: [],

  readEvent({ metadata, exception }, facts) {
    if (exception) facts.failed = true;
    if (isRecord(metadata)) {
      readUsage(metadata.usage, facts);
      facts.isOver = true;
    }
    return false;
  },

  readBody({ usage }, facts) {
    readUsage(usage, facts);
  },

  textOfEvent: ({ contentBlockDelta }) =>
    isRecord(contentBlockDelta) ? textOfDelta(contentBlockDelta.delta) : '',

  textOfBody: ({ output }) =>
    isRecord(output) && isRecord(output.message)
      ? recordsIn(output.message.content).map(textOfBlock).join('')
      : '',
};

function readUsage(reported: unknown, facts: ResponseFacts): void {
  const usage = usageFromConverse(reported);
  if (usage) facts.usage = usage;
  facts.isFinal = usage !== undefined;
}

function textOfDelta(delta: unknown): string {
  if (!isRecord(delta)) return '';
  const { text, toolUse, reasoningContent } = delta;
  return joinTexts([
    text,
    isRecord(toolUse) ? toolUse.input : undefined,
    isRecord(reasoningContent) ? reasoningContent.text : undefined,
  ]);
}

function textOfBlock({ text, toolUse, reasoningContent }: JsonRecord): string {
  const told = isRecord(reasoningContent) ? reasoningContent.reasoningText : undefined;
  return joinTexts([
    text,
    isRecord(toolUse) ? joinTexts([toolUse.name, JSON.stringify(toolUse.input ?? {})]) : undefined,
    isRecord(told) ? told.text : undefined,
  ]);
}
