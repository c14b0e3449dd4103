// A message with blocks as it is written: words, and blocks that each stand at a place among them. Pure.

// Returns `{text, blocks}` of stored messages, one after the other: what a person would have to write to say the same.
// A block has the `sent` time of its message.
export function writtenOf(messages) {
  let text = "";
  const blocks = [];
  for (const { content, segments, time } of messages) {
    if (text) text += "\n\n";
    for (const part of segments?.length ? segments : [{ text: content }]) {
      if (part.block) blocks.push({ ...part.block, id: `b${blocks.length + 1}`, at: text.length, sent: time });
      else text += part.text ?? "";
    }
  }
  return { text, blocks };
}

// Returns the blocks at the places that they have after the words changed: what stood behind the change moves with it.
export function moved(blocks, before, after) {
  let same = 0;
  while (same < before.length && same < after.length && before[same] === after[same]) same += 1;
  const by = after.length - before.length;
  return blocks.map((block) => (block.at > same ? { ...block, at: Math.max(same, block.at + by) } : block));
}

// Returns a block as it is sent.
export const sentBlock = ({ id, type, target, period, at }) => ({ id, type, target, ...(period ? { period } : {}), at });
