import { usageFromGemini } from '@weighbridge/domain';
import { isRecord, type JsonRecord, joinTexts, recordsIn } from './jsonFields.ts';
import { PrunedItems, shape } from './jsonShape.ts';
import {
  addToolUses,
  fieldMarker,
  nameOf,
  type ResponseFacts,
  type ResponseFormat,
  saidOf,
} from './responseFormat.ts';
import { responseIdOf } from './responseId.ts';

const isChunk = ({ maps }: JsonRecord) => isRecord(maps) || maps === true;
const GROUNDING = shape({
  webSearchQueries: 'value',
  imageSearchQueries: 'value',
  groundingChunks: { items: shape({ maps: 'presence' }), keeps: isChunk },
});
const RESPONSE = shape({
  responseId: 'value',
  modelVersion: 'value',
  usageMetadata: 'value',
  promptFeedback: { members: shape({ blockReason: 'value' }) },
  error: 'presence',
  candidates: {
    items: shape({ index: 'value', finishReason: 'value', groundingMetadata: { members: GROUNDING } }),
    keeps: () => true,
  },
});

/**
 * Gemini's `generateContent` (https://ai.google.dev/api/generate-content). A stream is a list of such responses: the usage in
 * each is what was used so far, and the last one of each candidate has its `finishReason`. Embeddings report their usage alike.
 */
export const geminiFormat: ResponseFormat = {
  markers: [fieldMarker('usageMetadata'), fieldMarker('candidates'), fieldMarker('error')],
  eventShape: RESPONSE,
  bodyShape: RESPONSE,
  plainBodyShape: RESPONSE,
  details: [],

  readEvent(chunk, facts) {
    if (chunk.error) facts.failed = true;
    readResponse(chunk, facts);
    facts.isOver = isFinished(chunk, facts);
    facts.isFinal = facts.isOver && facts.usage !== undefined;
    return false;
  },

  readBody(body, facts) {
    readResponse(body, facts);
    facts.isFinal = facts.usage !== undefined;
  },

  textOfEvent: textOf,
  textOfBody: textOf,
};

function readResponse(response: JsonRecord, facts: ResponseFacts): void {
  facts.responseId ||= responseIdOf(response.responseId);
  facts.model = nameOf(response.modelVersion) || facts.model;
  const { usageMetadata: reported, candidates } = response;
  const serviceTier = saidOf(isRecord(reported) ? reported.serviceTier : undefined);
  if (serviceTier !== undefined) facts.said = { serviceTier };
  const usage = usageFromGemini(reported);
  if (usage) facts.usage = usage;
  if (!(candidates instanceof PrunedItems)) return;
  for (const { groundingMetadata } of candidates.kept) {
    if (isRecord(groundingMetadata)) addToolUses(facts, searchesIn(groundingMetadata, facts.model));
  }
}

/** Each candidate that began has ended, or none will begin. */
function isFinished({ candidates, promptFeedback }: JsonRecord, facts: ResponseFacts): boolean {
  if (isRecord(promptFeedback) && typeof promptFeedback.blockReason === 'string') return true;
  if (!(candidates instanceof PrunedItems)) return facts.isOver;
  for (const { index, finishReason } of candidates.kept) {
    const bit = 1 << (typeof index === 'number' ? index & 31 : 0);
    facts.begunChoices |= bit;
    if (isReason(finishReason)) facts.endedChoices |= bit;
  }
  return facts.begunChoices !== 0 && facts.begunChoices === facts.endedChoices;
}

/** Zero values are usually left out, but need not be. */
function isReason(reason: unknown): boolean {
  return typeof reason === 'string' && reason !== '' && reason !== 'FINISH_REASON_UNSPECIFIED';
}

/** Models before Gemini 3 bill a search by the prompt that needed one, later ones by its queries. */
const BILLED_BY_PROMPT = /^(models\/)?gemini-[12]\b/;

/** What grounding says of the vendor's searches (https://ai.google.dev/gemini-api/docs/pricing). */
function searchesIn(grounding: JsonRecord, model: string): Record<string, number> {
  const queries = [grounding.webSearchQueries, grounding.imageSearchQueries].flatMap((list) =>
    Array.isArray(list) ? list.filter((query) => typeof query === 'string' && query !== '') : [],
  ).length;
  const { groundingChunks: chunks } = grounding;
  const uses: Record<string, number> = {};
  if (queries > 0) uses.google_search = BILLED_BY_PROMPT.test(model) ? 1 : queries;
  if (chunks instanceof PrunedItems && chunks.kept.length > 0) uses.google_maps = 1;
  return uses;
}

function textOf({ candidates }: JsonRecord): string {
  return recordsIn(candidates)
    .flatMap(({ content }) => (isRecord(content) ? recordsIn(content.parts) : []))
    .map(({ text, functionCall, executableCode }) =>
      joinTexts([text, ...[functionCall, executableCode].map((call) => call && JSON.stringify(call))]),
    )
    .join('');
}
