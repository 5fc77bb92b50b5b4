import {
  bounded,
  count,
  flag,
  free,
  freeFields,
  model,
  OTHER_MODELS,
  options,
  switchedOn,
  textsOrTokens,
  unboundedOutput,
} from './field.ts';
import { MAX_CHOICES, OUTPUT_TOKENS } from './notes.ts';

/**
 * The body of a completion (https://platform.openai.com/docs/api-reference/completions): OpenAI's fields, then those that
 * compatible servers add. Its prompt is text or numbers of tokens, or a list of either: each prompt gets its own choices.
 */
export const COMPLETIONS_FIELDS = {
  model,
  prompt: textsOrTokens(),
  max_tokens: count(OUTPUT_TOKENS),
  n: count('each choice of each prompt reserves the whole output limit', MAX_CHOICES),
  best_of: count('each candidate of each prompt reserves the whole output limit', MAX_CHOICES),
  echo: { ...switchedOn('the prompt may be billed as output, beside the output limit'), isOutput: true },
  // The probabilities of tokens that are billed in any case.
  logprobs: free,
  stream: flag,
  stream_options: options,
  ...freeFields('suffix', 'stop', 'seed', 'user', 'metadata'),
  ...freeFields('temperature', 'top_p', 'frequency_penalty', 'presence_penalty', 'logit_bias'),
  // Self-hosted servers, and vendors that host open models.
  min_tokens: bounded('the output limit'),
  ...freeFields('top_k', 'min_p', 'repetition_penalty', 'length_penalty', 'ignore_eos', 'random_seed'),
  ...freeFields('stop_token_ids', 'skip_special_tokens', 'response_format', 'raw'),
  ...freeFields('guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'),
  prompt_logprobs: free,
  // OpenRouter.
  models: unboundedOutput('other models may answer, at other prices', OTHER_MODELS),
  provider: unboundedOutput('other providers of the model have other prices'),
  ...freeFields('transforms', 'session_id', 'debug'),
} as const;
