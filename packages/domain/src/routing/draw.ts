/**
 * Returns a number in [0, 1). If it is a function of the name, every proxy draws the same order, and the order of the rest
 * stays the same when an item is removed (weighted rendezvous hashing).
 */
export type Draw = (name?: string) => number;

/**
 * Draws an order: each item is first with the probability of its share of the weights, and so on among the rest (Efraimidis
 * and Spirakis, 2006). A weight of 0 is an absent field, and counts as 1.
 */
export function drawnByWeight<Item extends { readonly weight: number }>(
  items: readonly Item[],
  draw: (item: Item) => number,
): readonly Item[] {
  if (items.length < 2) return items;
  return items
    .map((item) => ({ item, at: -Math.log(1 - draw(item)) / (item.weight || 1) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
