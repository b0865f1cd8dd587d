// Filters as menus; each option stands for conditions in the search box.

export const CHOICES = [
  [
    "confidence",
    "Confidence",
    [
      ["any", []],
      ["90% and up", ["confidence>=0.9"]],
      ["50 to 90%", ["confidence>=0.5", "confidence<0.9"]],
      ["below 50%", ["confidence<0.5"]],
    ],
  ],
  [
    "cost",
    "Cost",
    [
      ["any", []],
      ["over $0.01", ["cost>0.01"]],
      ["over $0.10", ["cost>0.1"]],
      ["over $1", ["cost>1"]],
    ],
  ],
  [
    "duration",
    "Time",
    [
      ["any", []],
      ["under 10 s", ["duration<10s"]],
      ["over 10 s", ["duration>10s"]],
      ["over 1 min", ["duration>1m"]],
      ["over 10 min", ["duration>10m"]],
    ],
  ],
  [
    "reason",
    "Reason",
    [
      ["any", []],
      ["iterations", ["reason:iterations"]],
      ["LLM calls", ["reason:llm"]],
      ["time", ["reason:seconds,time"]],
      ["tokens", ["reason:tokens"]],
      ["cost", ["reason:cost,$"]],
      ["errors", ["reason:errors,error"]],
    ],
  ],
];
