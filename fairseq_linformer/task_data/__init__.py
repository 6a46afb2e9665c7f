"""Tasks to finetune on, from where they are published to fairseq's ``sentence_prediction`` layout."""
