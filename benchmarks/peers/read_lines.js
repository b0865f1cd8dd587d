// `readLines` of https://deno.land/std/io, for DSPy's runner where that host cannot be reached: everything else that it
// imports comes from npm. Takes a stream with `readable`, and yields its lines without their ends.

export async function* readLines(input) {
  const decoder = new TextDecoder();
  let pieces = [];
  for await (const chunk of input.readable) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      pieces.push(decoder.decode(chunk.subarray(start, end), { stream: true }));
      yield pieces.join("");
      pieces = [];
      start = end + 1;
    }
    pieces.push(decoder.decode(chunk.subarray(start), { stream: true }));
  }
  if (pieces.length && pieces.join("")) yield pieces.join("");
}
