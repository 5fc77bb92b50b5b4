import { PrunedItems, shape } from './jsonShape.ts';
import type { ResponseFormat } from './responseFormat.ts';
import { NAMING_ITEM, nameItem } from './responsesFormat.ts';

const LIST = shape({ data: { items: NAMING_ITEM, keeps: () => true } });
const NOTHING = shape({});

/** The input items of a stored response: all that matters of them is their ids, which a later request may name. */
export const itemListFormat: ResponseFormat = {
  markers: [],
  eventShape: NOTHING,
  bodyShape: LIST,
  plainBodyShape: LIST,
  details: [],
  readEvent: () => false,
  readBody: ({ data }, facts) => {
    if (data instanceof PrunedItems) for (const item of data.kept) nameItem(facts, item);
  },
  textOfEvent: () => '',
  textOfBody: () => '',
};
