/** What Azure adds to chat completions: https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter */

const SAFE = { filtered: false, severity: 'safe' };
const RESULTS = { hate: SAFE, self_harm: SAFE, sexual: SAFE, violence: SAFE };
const PROMPT_RESULTS = [{ prompt_index: 0, content_filter_results: RESULTS }];

/** A prompt with this word is refused. */
const WORD = 'azure-filters-this';

export const PROMPT_REFUSAL = JSON.stringify({
  error: {
    message:
      "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    type: null,
    param: 'prompt',
    code: 'content_filter',
    status: 400,
    innererror: {
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { ...RESULTS, violence: { filtered: true, severity: 'high' } },
    },
  },
});

export function isFiltered(body: Readonly<Record<string, unknown>>): boolean {
  return JSON.stringify(body.messages ?? body.input ?? body.prompt ?? '').includes(WORD);
}

interface ChatAnswer {
  readonly choices: readonly object[];
}

export function filteredAnswer(text: string): string {
  const answer = JSON.parse(text) as ChatAnswer;
  const choices = answer.choices.map((choice) => ({ ...choice, content_filter_results: RESULTS }));
  return JSON.stringify({ ...answer, choices, prompt_filter_results: PROMPT_RESULTS });
}

const FIRST_CHUNK = {
  choices: [],
  created: 0,
  id: '',
  model: '',
  object: '',
  prompt_filter_results: PROMPT_RESULTS,
};

/** A stream begins with an event that has no choice. */
export const FIRST_EVENT = `data: ${JSON.stringify(FIRST_CHUNK)}\n\n`;

/** Each choice of a stream has results. */
export function filteredEvents(events: string): string {
  return events.replace(/^data: (\{.*\})$/gm, (_line, data: string) => {
    const event = JSON.parse(data) as ChatAnswer;
    const choices = event.choices.map((choice) => ({ ...choice, content_filter_results: RESULTS }));
    return `data: ${JSON.stringify({ ...event, choices })}`;
  });
}
